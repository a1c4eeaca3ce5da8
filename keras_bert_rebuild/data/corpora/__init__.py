"""Corpora: text on disk, tokens on disk, and documents of both."""
