"""Many features under (epsilon, delta): Gaussian noise, a private subspace, then steps. Proof: proofs/many_features.md."""
