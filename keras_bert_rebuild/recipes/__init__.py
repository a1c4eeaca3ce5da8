"""Whole trainings: from a corpus on disk to a model on disk, in one call."""
