"""A dtype policy for the layers that are made in a `with` block."""

import contextlib

import keras


@contextlib.contextmanager
def dtype_scope(dtype):
    """Make `dtype` the global dtype policy, and restore the previous one at the end.

    Args:
        dtype: a dtype policy, such as "mixed_bfloat16"; None leaves the current one.
    """
    before = keras.config.dtype_policy()
    if dtype is not None:
        keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
