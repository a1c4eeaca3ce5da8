"""Pretraining examples and batches as pure seeded functions of a corpus."""
