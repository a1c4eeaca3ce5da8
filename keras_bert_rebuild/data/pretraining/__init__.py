"""Pretraining examples and batches, as pure functions of a corpus and a seed."""
