"""The version, which setup.cfg reads too."""

__version__ = "0.3.0"
