"""The version, where setup.cfg reads it too."""

__version__ = "0.2.0"
