"""The backend that is installed: the one that KERAS_BACKEND names, as it does for Keras; TensorFlow by default.

Everything else about the package is in setup.cfg.
"""

import configparser
import os
from pathlib import Path

from setuptools import setup


def needs(backend):
    """What the package needs, by setup.cfg, with this backend in TensorFlow's place."""
    declared = configparser.ConfigParser()
    declared.read(Path(__file__).with_name("setup.cfg"), encoding="utf-8")
    lines = declared["options"]["install_requires"].split("\n")
    others = [line for line in lines if line and not line.startswith("tensorflow")]
    return [*others, *declared["options.extras_require"][backend].split("\n")]


BACKEND = os.environ.get("KERAS_BACKEND")
setup(**({"install_requires": needs(BACKEND)} if BACKEND in ("jax", "torch") else {}))  # what is given here replaces setup.cfg's
