"""Arrays of foreign checkpoints by name, and their transfer to and from variables."""
