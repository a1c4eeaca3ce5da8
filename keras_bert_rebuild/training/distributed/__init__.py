"""Devices and hosts that train together."""
