"""Pretraining as one call that can be interrupted and resumed at any step."""
