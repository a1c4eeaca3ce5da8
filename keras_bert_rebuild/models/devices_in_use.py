"""Which devices a training was told of: those that were chosen and never entered, and those that share its batches evenly.

JAX does not cut a batch that its devices cannot share evenly. Replicas of TensorFlow do, and Keras takes the mean of their means,
to which a replica with fewer examples adds as much as the others, and one with none a loss of 0.
"""

import functools
import warnings

import keras

# Kinds and numbers of devices that `distribute` answered with and that nobody has entered.
_waiting: list[tuple[str, int]] = []

# Of the devices that are entered, outermost first: into how many parts they cut a batch that this process makes.
_parts: list[int] = []


def expect_use(kind, devices):
    """Note that several devices were chosen."""
    _waiting.append((kind, devices))


def enter_devices(parts):
    """Note that devices are entered, which cut a batch of this process into so many parts: whoever does that knows how."""
    _waiting.clear()
    _parts.append(parts)


def leave_devices():
    """Note that the devices entered last are left."""
    _parts.pop()


def parts_of_batch(model):
    """Into how many parts a batch of this process is cut in a step of a model."""
    strategy = getattr(model, "distribute_strategy", None)  # TensorFlow's, the one that the model was built under
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
        f"distribute({kind!r}) was called and not entered, so that this model trains on one device and not on {devices}: it is to "
        f"be built, compiled and trained inside of `with distribute({kind!r}):`.",
        stacklevel=3,
    )


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
            f"a batch must have a multiple of {parts} examples, the same number for each device; got one of {size}: choose a batch "
            "size that is such a multiple, and leave out what does not fill the last one."
        )


def check_even_batches(parts, x, batch_size, split=0.0):
    """The same of arrays that Keras will cut into batches, before it does.

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
    """A check of a batch `(x, ...)` that looks at the number of its examples, too."""

    def both(batch):
        check_even(parts, examples_of(batch[0] if isinstance(batch, tuple) else batch))
        return check(batch)

    return check if parts == 1 else functools.wraps(check)(both)


def examples_of(x):
    """How many examples arrays have."""
    return next(value for value in keras.tree.flatten(x) if value is not None).shape[0]
