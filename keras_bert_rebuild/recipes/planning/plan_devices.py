"""Published figures of accelerators, each with its vendor's page, and the time of an all-reduce over many of them."""

import math
from dataclasses import dataclass

from keras_bert_rebuild.models.memory import available_bytes


@dataclass(frozen=True)
class Device:
    """One TPU chip or one GPU."""

    name: str
    """Its name on the command line."""

    title: str
    """The vendor's name for it."""

    bfloat16: float | None
    """Operations per second of dense bfloat16 matrix products; None without hardware for them."""

    float32: float
    """The same for float32 as JAX and TensorFlow compute it: one bfloat16 pass on a TPU, TF32 on NVIDIA's GPUs since the A100."""

    memory: float
    """Bytes of memory that a program can use."""

    bandwidth: float
    """Bytes per second between the chip and its memory."""

    link: float
    """Bytes per second that a TPU chip sends to one neighbour, or a GPU to the other GPUs of its host."""

    network: float | None
    """Bytes per second that a GPU sends to other hosts, in its vendor's machine of eight; None if there is no such machine."""

    source: str
    """The page with these figures."""

    def flops(self, dtype):
        """Operations per second under a dtype policy; without hardware for bfloat16, those of float32."""
        return self.bfloat16 if dtype == "mixed_bfloat16" and self.bfloat16 else self.float32


TERA, GIGA, GIB = 1e12, 1e9, 2.0**30

# TFLOP/s in bfloat16, GiB, GB/s of the memory, GB/s of one link. The pages sum the links of a chip over both directions: 600 GB/s
# over 6 links, 400 over 4, 1,200 over 6, 800 over 4. They give 32, 16, 95 and 32 GiB; here is what the compiler lets a program use.
TPUS = (
    ("v4", 275, 30.5, 1200, 50, "https://cloud.google.com/tpu/docs/v4"),
    ("v5e", 197, 15.75, 819, 50, "https://cloud.google.com/tpu/docs/v5e"),
    ("v5p", 459, 95.74, 2765, 100, "https://cloud.google.com/tpu/docs/v5p"),
    ("v6e", 918, 31.25, 1638, 100, "https://cloud.google.com/tpu/docs/v6e"),
)

# TFLOP/s in bfloat16 and float32 without sparsity, GB, GB/s of the memory, of NVLink or PCIe in one direction, and of the network:
# the adapters of a DGX divided by its eight GPUs (https://docs.nvidia.com/dgx/dgxa100-user-guide/ and dgxh100-user-guide/). A
# published GB is taken as 10⁹ bytes, which leaves a few per cent for the driver.
GPUS = (
    (
        "a100-40",
        "NVIDIA A100 40GB SXM",
        312,
        156,
        40,
        1555,
        300,
        25,
        "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
    ),
    ("a100-80", "NVIDIA A100 80GB SXM", 312, 156, 80, 2039, 300, 25, "https://www.nvidia.com/en-us/data-center/a100/"),
    ("h100", "NVIDIA H100 SXM", 989.5, 494.5, 80, 3350, 450, 50, "https://www.nvidia.com/en-us/data-center/h100/"),
    ("h200", "NVIDIA H200 SXM", 989.5, 494.5, 141, 4800, 450, 50, "https://www.nvidia.com/en-us/data-center/h200/"),
    ("v100", "NVIDIA V100 SXM2 16GB", None, 15.7, 16, 900, 150, None, "https://www.nvidia.com/en-us/data-center/v100/"),
    ("t4", "NVIDIA T4", None, 8.1, 16, 320, 16, None, "https://www.nvidia.com/en-us/data-center/tesla-t4/"),
    ("l4", "NVIDIA L4", 121, 60, 24, 300, 32, None, "https://www.nvidia.com/en-us/data-center/l4/"),
    (
        "rtx4090",
        "NVIDIA GeForce RTX 4090",
        165.2,
        82.6,
        24,
        1008,
        32,
        None,
        "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    ),
)


def _tpu(name, bfloat16, memory, bandwidth, link, source):
    rate = bfloat16 * TERA
    return Device(name, f"TPU {name}", rate, rate, memory * GIB, bandwidth * GIGA, link * GIGA, None, source)


def _gpu(name, title, bfloat16, float32, memory, bandwidth, link, network, source):
    half = None if bfloat16 is None else bfloat16 * TERA
    beyond = None if network is None else network * GIGA
    return Device(name, title, half, float32 * TERA, memory * GIGA, bandwidth * GIGA, link * GIGA, beyond, source)


TPU_CHIPS = {row[0]: _tpu(*row) for row in TPUS}
GPU_CARDS = {row[0]: _gpu(*row) for row in GPUS}

# The available slices, from the pages above: chips along each axis.
FLAT_SLICES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
DEEP_SLICES = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (4, 8, 8), (8, 8, 8), (8, 8, 16), (8, 16, 16))
SLICES = {"v4": DEEP_SLICES, "v5e": FLAT_SLICES, "v5p": DEEP_SLICES, "v6e": FLAT_SLICES}


# GPUs of a host, as in the vendors' machines.
HOST = 8


@dataclass(frozen=True)
class Topology:
    """Devices of one kind and how they are connected."""

    device: Device
    """The kind of device."""

    shape: tuple
    """TPU chips along each axis of the slice; for GPUs and the CPU, only their number."""

    kind: str
    """"tpu", "gpu" or "cpu"."""

    @property
    def count(self):
        """Number of devices."""
        return math.prod(self.shape)

    @property
    def words(self):
        """A description for people."""
        if self.kind == "tpu":
            return f"{self.device.title}, slice {'x'.join(map(str, self.shape))}, {self.count} chip{'s' * (self.count > 1)}"
        return self.device.title if self.count == 1 else f"{self.count} × {self.device.title}"

    @property
    def send_rate(self):
        """Bytes per second that a TPU chip sends over all its links together, or a GPU to the other GPUs of its host.

        A chip has two links along an axis whose ring is closed: axes of 16 chips on v5e and v6e; on v4 and v5p all axes, if each is
        a multiple of 4. On an open axis the ring is folded and has one link per chip.

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
        """Seconds of an all-reduce of an array of `size` bytes.

            n TPU chips, or n ≤ 8 GPUs    2 (n − 1)/n · size / send_rate
            h hosts of 8 GPUs             2 · 7/8 · size / send_rate + 2 (h − 1)/h · size/8 / network

        Every device sends and receives each byte outside its own share twice: in the reduce-scatter and in the all-gather. Several
        hosts sum within each host first, so that each GPU sends only an eighth of the array to other hosts.

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
    shapes = {"x".join(map(str, chips)): chips for chips in SLICES[name]}
    if shape not in shapes:
        raise ValueError(f"the slice of a {name} must be one of {', '.join(shapes)}; got {shape!r} in {text!r}.")
    return Topology(TPU_CHIPS[name], shapes[shape], "tpu")


def gpus(count, name):
    """GPUs of one model; more than eight are in hosts of eight.

    Raises:
        ValueError: the GPU is unknown, or this number of them cannot be connected.
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
    """The CPU of this machine; its FLOP/s are measured with one large product, its memory is what is free now.

    Raises:
        ValueError: the system does not report how much memory is free.
    """
    from keras_bert_rebuild.recipes.step_costs import matrix_ceiling

    free = available_bytes()
    if free is None:
        raise ValueError("a plan for the CPU needs a system that reports its free memory; this one does not.")
    rate = matrix_ceiling("bfloat16" if dtype == "mixed_bfloat16" else "float32")
    return Topology(Device("cpu", "this processor", rate, rate, free, 0.0, 0.0, None, "measured"), (1,), "cpu")


def topology_of(tpu, number, gpu, cpu, dtype):
    """The devices of a plan: a slice of TPUs, some GPUs or the CPU of this machine.

    Raises:
        ValueError: not exactly one kind of device is given, or it is unknown.
    """
    kinds = {"tpu": tpu is not None, "gpu": gpu is not None or number is not None, "cpu": bool(cpu)}
    if sum(kinds.values()) != 1:
        named = " and ".join(name for name, is_given in kinds.items() if is_given) or "none"
        raise ValueError(f"expected one of tpu (such as v5e:4x4), gpu (such as h100) and cpu to plan for; got {named}.")
    if tpu is not None:
        return tpu_slice(tpu)
    return this_processor(dtype) if cpu else gpus(1 if number is None else number, gpu)
