"""Batches that several devices share evenly, and a sentence for those that they do not.

JAX does not cut such a batch. Replicas of TensorFlow do, and Keras takes the mean of their means, to which a replica with fewer
examples adds as much as the others, and one with none a loss of 0.
"""

import functools

import keras


def check_even(parts, size):
    """Refuse a batch that the devices cannot share evenly.

    Args:
        parts: how many devices, or groups of them, share a batch.
        size: the examples of the batch.

    Raises:
        ValueError: the size is no multiple of the parts.
    """
    if size % parts:
        raise ValueError(
            f"a batch must have a multiple of {parts} examples, as so many devices share it; got one of {size}: choose a batch "
            "size that is such a multiple, and leave out what does not fill the last one."
        )


def check_even_batches(parts, x, batch_size, split=0.0):
    """The same of arrays that Keras will cut into batches, before it does.

    Args:
        parts: as of `check_even`.
        x: the arrays.
        batch_size: examples of a batch; None for Keras's 32.
        split: the share at the end that is held out, `validation_split`.
    """
    if parts == 1:
        return
    rows = examples_of(x)
    trained = int(rows * (1 - split))
    for count in (trained, rows - trained):
        for size in (min(batch_size or 32, count), count % (batch_size or 32)):
            check_even(parts, int(size))


def checking_even(parts, check):
    """A check of a batch `(x, ...)` that looks at the number of its examples, too."""

    def both(batch):
        check_even(parts, examples_of(batch[0] if isinstance(batch, tuple) else batch))
        return check(batch)

    return check if parts == 1 else functools.wraps(check)(both)


def examples_of(x):
    """How many examples arrays have."""
    return next(value for value in keras.tree.flatten(x) if value is not None).shape[0]
