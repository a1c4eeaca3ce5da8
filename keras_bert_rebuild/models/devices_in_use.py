"""Which devices a training was told of: those that were chosen and never entered, and those that share its batches."""

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
