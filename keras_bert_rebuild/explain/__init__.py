"""The architecture, told from the live model."""
