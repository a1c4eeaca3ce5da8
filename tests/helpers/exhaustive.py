"""EXHAUSTIVE=1 asks for ten thousand damaged files in place of hundreds, every length and character, kills by the dozen."""

import os

import pytest

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
only_exhaustive = pytest.mark.skipif(not EXHAUSTIVE, reason="takes minutes; EXHAUSTIVE=1 runs it")
