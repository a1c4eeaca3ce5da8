"""Losses, optimizer and schedule of pretraining, and `compile_model` that puts them together."""
