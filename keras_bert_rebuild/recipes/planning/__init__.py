"""Estimates of what a training requires on devices that are not at hand."""
