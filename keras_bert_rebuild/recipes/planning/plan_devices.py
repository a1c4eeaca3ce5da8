"""The published figures of accelerators, each with the page of its vendor."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """One TPU chip or one GPU."""

    name: str
    """Its name on the command line."""

    title: str
    """The vendor's name for it."""

    bfloat16: float | None
    """Operations per second of dense bfloat16 matrix products; None if there are no units for them."""

    float32: float
    """The same for float32 as JAX and TensorFlow compute it: one bfloat16 pass on a TPU, TF32 on NVIDIA's GPUs since A100."""

    memory: float
    """Bytes that a program can use."""

    bandwidth: float
    """Bytes per second between the chip and its memory."""

    link: float
    """Bytes per second that a TPU sends to one neighbour, and a GPU to the others of its host."""

    network: float | None
    """Bytes per second that a GPU sends to other hosts, in its vendor's machine of eight; None if there is no such machine."""

    source: str
    """The page with these figures."""

    def flops(self, dtype):
        """Operations per second under a dtype policy; without units for bfloat16, those of float32."""
        return self.bfloat16 if dtype == "mixed_bfloat16" and self.bfloat16 else self.float32


TERA, GIGA, GIB = 1e12, 1e9, 2.0**30

# TFLOP/s in bfloat16, GiB, GB/s of the memory, GB/s of one link. The pages give all links of a chip in both directions: 600 GB/s of
# 6, 400 of 4, 1,200 of 6, 800 of 4. They give 32, 16, 95 and 32 GiB; the figures here are what the compiler lets a program use.
TPUS = (
    ("v4", 275, 30.5, 1200, 50, "https://cloud.google.com/tpu/docs/v4"),
    ("v5e", 197, 15.75, 819, 50, "https://cloud.google.com/tpu/docs/v5e"),
    ("v5p", 459, 95.74, 2765, 100, "https://cloud.google.com/tpu/docs/v5p"),
    ("v6e", 918, 31.25, 1638, 100, "https://cloud.google.com/tpu/docs/v6e"),
)

# TFLOP/s in bfloat16 and float32 without sparsity, GB, GB/s of the memory, of NVLink or PCIe in one direction, and of the network:
# the adapters of a DGX divided by its eight GPUs (https://docs.nvidia.com/dgx/dgxa100-user-guide/ and dgxh100-user-guide/). A
# published GB counts as 10⁹ bytes, which leaves the driver some per cent.
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

# The available slices, as the pages above list them: chips along each axis.
FLAT_SLICES = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
DEEP_SLICES = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (4, 8, 8), (8, 8, 8), (8, 8, 16), (8, 16, 16))
SLICES = {"v4": DEEP_SLICES, "v5e": FLAT_SLICES, "v5p": DEEP_SLICES, "v6e": FLAT_SLICES}
