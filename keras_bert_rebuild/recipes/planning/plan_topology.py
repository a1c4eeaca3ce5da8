"""Devices that train together, and how long they take to sum an array."""

import math
from dataclasses import dataclass

from keras_bert_rebuild.models.memory import available_bytes
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS, SLICES, TPU_CHIPS, Device

# GPUs of a host, as in the vendors' machines.
HOST = 8


@dataclass(frozen=True)
class Topology:
    """Devices of one kind and how they are connected."""

    device: Device
    """One of them."""

    shape: tuple
    """TPU chips along each axis of the slice; for GPUs and the processor their number alone."""

    kind: str
    """"tpu", "gpu" or "cpu"."""

    @property
    def count(self):
        """Number of devices."""
        return math.prod(self.shape)

    @property
    def words(self):
        """Its name for people."""
        if self.kind == "tpu":
            return f"{self.device.title}, slice {'x'.join(map(str, self.shape))}, {self.count} chip{'s' * (self.count > 1)}"
        return self.device.title if self.count == 1 else f"{self.count} × {self.device.title}"

    @property
    def send_rate(self):
        """Bytes per second that a TPU chip sends over all of its links together, and a GPU to the others of its host.

        A chip has two links along an axis whose ring is closed: axes of 16 chips on v5e and v6e; on v4 and v5p all axes, if each is
        a multiple of 4. Over an open axis the ring is folded and has one link per chip.

        Reference: https://cloud.google.com/tpu/docs/v4 on mesh and torus; Austin et al., 2025, "How to scale your model", part 2
        (https://jax-ml.github.io/scaling-book/tpus).
        """
        if self.kind != "tpu":
            return self.device.link
        if self.device.name in ("v5e", "v6e"):
            closed = [chips == 16 for chips in self.shape]
        else:
            closed = [all(chips % 4 == 0 for chips in self.shape)] * len(self.shape)
        links = sum(1 + ring for chips, ring in zip(self.shape, closed, strict=True) if chips > 1)
        return self.device.link * links

    def all_reduce_seconds(self, size):
        """Seconds until every device has the sum over all devices of an array of `size` bytes.

            n TPU chips, or n ≤ 8 GPUs    2 (n − 1)/n · size / send_rate
            h hosts of 8 GPUs             2 · 7/8 · size / send_rate + 2 (h − 1)/h · size/8 / network

        Every device sends and receives each byte twice except its own share: once for the reduce-scatter, once for the all-gather.
        Several hosts sum within each host first, so that only an eighth of the array leaves each GPU.

        Reference: Patarasuk and Yuan, 2009, for the ring (https://doi.org/10.1016/j.jpdc.2008.09.002).
        """
        within = self.count if self.kind == "tpu" else min(self.count, HOST)
        seconds = 2 * (within - 1) / within * size / self.send_rate if within > 1 else 0.0
        hosts = self.count // within
        if hosts > 1:
            seconds += 2 * (hosts - 1) / hosts * size / within / self.device.network
        return seconds


def tpu_slice(text):
    """The slice of a text such as "v5e:4x4".

    Raises:
        ValueError: there is no such chip or slice.
    """
    name, _, shape = str(text).partition(":")
    if name not in TPU_CHIPS:
        raise ValueError(f"tpu must be one of {', '.join(TPU_CHIPS)} with a slice, such as v5e:4x4; got {text!r}.")
    known = {"x".join(map(str, chips)): chips for chips in SLICES[name]}
    if shape not in known:
        raise ValueError(f"the slice of a {name} must be one of {', '.join(known)}; got {shape!r} in {text!r}.")
    return Topology(TPU_CHIPS[name], known[shape], "tpu")


def gpus(count, name):
    """GPUs of one kind, in hosts of eight if there are more.

    Raises:
        ValueError: there is no such GPU, or this number cannot be connected.
    """
    if name not in GPU_CARDS:
        raise ValueError(f"gpu must be one of {', '.join(GPU_CARDS)}; got {name!r}.")
    if not isinstance(count, int) or count < 1 or (count > HOST and count % HOST):
        raise ValueError(f"gpus must be a number from 1 to {HOST}, or a multiple of {HOST} for several hosts; got {count}.")
    card = GPU_CARDS[name]
    if count > HOST and card.network is None:
        raise ValueError(f"gpus must be at most {HOST} of {name}, since no network between hosts is known for it; got {count}.")
    return Topology(card, (count,), "gpu")


def this_processor(dtype):
    """The processor of this machine; its rate is measured with one large product, its memory is what is free now.

    Raises:
        ValueError: the system does not report how much memory is free.
    """
    from keras_bert_rebuild.recipes.model_flops import matrix_ceiling

    free = available_bytes()
    if free is None:
        raise ValueError("a plan for the processor needs a system that reports how much memory is free; this one does not.")
    rate = matrix_ceiling("bfloat16" if dtype == "mixed_bfloat16" else "float32")
    return Topology(Device("cpu", "this processor", rate, rate, free, 0.0, 0.0, None, "measured"), (1,), "cpu")
