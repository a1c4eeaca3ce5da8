"""Pretraining as one call, stopped and resumed at will."""
