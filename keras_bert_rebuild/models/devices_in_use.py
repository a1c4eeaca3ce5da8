"""The devices of a training: a warning if they were chosen but not entered, and a check that they share batches evenly.

JAX does not split a batch unevenly. TensorFlow does, and Keras then takes the mean over replicas, in which a replica with fewer
examples counts as much as the others, and one without any adds a loss of 0.
"""

import functools
import warnings

import keras

# Kinds and numbers of devices returned by `distribute` that have not been entered.
_waiting: list[tuple[str, int]] = []

# For the entered devices, outermost first: the number of parts that they split a batch of this process into.
_parts: list[int] = []


def expect_use(kind, devices):
    """Note that several devices were chosen."""
    _waiting.append((kind, devices))


def enter_devices(parts):
    """Note that devices are entered that split a batch of this process into `parts`."""
    _waiting.clear()
    _parts.append(parts)


def leave_devices():
    """Note that the devices entered last are left."""
    _parts.pop()


def parts_of_batch(model):
    """The number of parts that a batch of this process is split into in a step of a model."""
    strategy = getattr(model, "distribute_strategy", None)  # TensorFlow's strategy that the model was built under
    if strategy is not None:
        return strategy.num_replicas_in_sync
    return _parts[-1] if _parts else 1


def warn_of_unused_devices(model):
    """Warn once if a model trains on one device although several were chosen but not entered."""
    if not _waiting or keras.distribution.distribution() is not None or parts_of_batch(model) > 1:
        return
    kind, devices = _waiting[-1]
    _waiting.clear()
    warnings.warn(
        f"distribute({kind!r}) was called but not entered, so this model trains on one device and not on {devices}: build, compile "
        f"and train it inside `with distribute({kind!r}):`.",
        stacklevel=3,
    )


def check_even(parts, size):
    """Refuse a batch that the devices cannot share evenly.

    Args:
        parts: number of devices, or groups of devices, that share a batch.
        size: number of examples in the batch.

    Raises:
        ValueError: the size is not a multiple of the parts.
    """
    if size % parts:
        raise ValueError(
            f"a batch must have a multiple of {parts} examples, the same number for each device; got {size}: choose such a batch "
            "size, and drop an incomplete last batch."
        )


def check_even_batches(parts, x, batch_size, split=0.0):
    """Like `check_even`, for arrays that Keras will split into batches.

    Args:
        parts: as for `check_even`.
        x: the arrays.
        batch_size: examples per batch; None for Keras's 32.
        split: the fraction at the end that is held out, `validation_split`.
    """
    if parts == 1:
        return
    rows = examples_of(x)
    trained = int(rows * (1 - split))
    for count in (trained, rows - trained):
        for size in (min(batch_size or 32, count), count % (batch_size or 32)):
            check_even(parts, int(size))


def checking_even(parts, check):
    """A check of a batch `(x, ...)` that first checks the number of its examples, then calls `check`."""

    def check_both(batch):
        check_even(parts, examples_of(batch[0] if isinstance(batch, tuple) else batch))
        return check(batch)

    return check if parts == 1 else functools.wraps(check)(check_both)


def examples_of(x):
    """The number of examples in arrays."""
    return next(value for value in keras.tree.flatten(x) if value is not None).shape[0]
