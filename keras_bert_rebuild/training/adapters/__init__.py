"""Training few weights: low-rank adapters and frozen layers."""
