"""Optimizers, learning rates and the weights that they apply to."""
