"""The devices of a training: those that were chosen but never entered, and those that must share its batches evenly.

JAX does not split a batch that its devices cannot share evenly. Replicas of TensorFlow do, and Keras takes the mean of their means,
in which a replica with fewer examples counts as much as the others, and one without any adds a loss of 0.
"""

import functools
import warnings

import keras

# Kinds and numbers of devices that `distribute` returned and that were never entered.
_waiting: list[tuple[str, int]] = []

# For the devices that are entered, outermost first: into how many parts they split a batch of this process.
_parts: list[int] = []


def expect_use(kind, devices):
    """Note that several devices were chosen."""
    _waiting.append((kind, devices))


def enter_devices(parts):
    """Note that devices are entered which split a batch of this process into `parts`."""
    _waiting.clear()
    _parts.append(parts)


def leave_devices():
    """Note that the devices entered last are left."""
    _parts.pop()


def parts_of_batch(model):
    """Into how many parts a batch of this process is split in a step of a model."""
    strategy = getattr(model, "distribute_strategy", None)  # TensorFlow's, under which the model was built
    if strategy is not None:
        return strategy.num_replicas_in_sync
    return _parts[-1] if _parts else 1


def warn_of_unused_devices(model):
    """Warn, once, where a model trains on one device though several were chosen and never entered."""
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
        parts: how many devices, or groups of them, share a batch.
        size: the examples of the batch.

    Raises:
        ValueError: the size is not a multiple of the parts.
    """
    if size % parts:
        raise ValueError(
            f"a batch must have a multiple of {parts} examples, the same number for each device; got one of {size}: choose a batch "
            "size that is such a multiple, and drop the last, incomplete batch."
        )


def check_even_batches(parts, x, batch_size, split=0.0):
    """Like `check_even`, for arrays that Keras will split into batches.

    Args:
        parts: as for `check_even`.
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
    """`check` of a batch `(x, ...)`, which first checks the number of its examples."""

    def check_both(batch):
        check_even(parts, examples_of(batch[0] if isinstance(batch, tuple) else batch))
        return check(batch)

    return check if parts == 1 else functools.wraps(check)(check_both)


def examples_of(x):
    """How many examples arrays have."""
    return next(value for value in keras.tree.flatten(x) if value is not None).shape[0]
