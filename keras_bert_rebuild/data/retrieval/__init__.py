"""Texts, judgements and rankings of a search."""
