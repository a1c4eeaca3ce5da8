"""Devices that were chosen to train on, and a training that does not use them: it says so."""

import warnings

import keras

# Kinds and numbers of devices that `distribute` answered with and that nobody has entered.
_waiting = []


def expect_use(kind, devices):
    """Note that several devices were chosen."""
    _waiting.append((kind, devices))


def note_use():
    """Note that devices are entered: whoever does that knows how."""
    _waiting.clear()


def warn_of_unused_devices(model):
    """Warn, once, where a model trains on one device though several were chosen and never entered."""
    strategy = getattr(model, "distribute_strategy", None)  # TensorFlow's
    if not _waiting or keras.distribution.distribution() is not None or (strategy and strategy.num_replicas_in_sync > 1):
        return
    kind, devices = _waiting[-1]
    _waiting.clear()
    warnings.warn(
        f"distribute({kind!r}) was called and not entered, so that this model trains on one device and not on {devices}: it is to "
        f"be built, compiled and trained inside of `with distribute({kind!r}):`.",
        stacklevel=3,
    )
