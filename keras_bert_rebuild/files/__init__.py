"""Atomic files and folders; their kinds, limits and locks."""
