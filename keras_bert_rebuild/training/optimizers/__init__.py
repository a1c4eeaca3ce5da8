"""Optimizers, learning rate schedules and the weights that they apply to."""
