"""Speed, quality, scale and faults, measured; `make help` names the targets."""
