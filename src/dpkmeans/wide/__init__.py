"""Many features: Gaussian noise, a private subspace, then steps. Proof: proofs/many_features.md."""
