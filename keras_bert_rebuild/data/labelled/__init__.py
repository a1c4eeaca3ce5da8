"""Labelled examples in files, and batches of them."""
