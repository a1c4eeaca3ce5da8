"""BERT-base without random initialisation, which on some backends takes longer than the rest of a test."""

import contextlib

import keras
import pytest


@contextlib.contextmanager
def initialized_by(values):
    """Initialise the kernels of `get_model` with a function of a shape and the name of a dtype."""
    with pytest.MonkeyPatch.context() as patch:
        for initializer in (keras.initializers.GlorotNormal, keras.initializers.RandomUniform):
            patch.setattr(initializer, "__call__", lambda _, shape, dtype=None: keras.ops.convert_to_tensor(values(shape, dtype)))
        yield
