"""Probes that measure the quality of an encoder's vectors during training."""
