"""Corpora: text files, token stores, and the documents in them."""
