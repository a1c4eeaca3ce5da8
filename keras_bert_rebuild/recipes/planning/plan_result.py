"""The result of a plan."""

from dataclasses import asdict, dataclass
from typing import Any

from keras_bert_rebuild.recipes.planning.measured_memory import MeasuredMemory
from keras_bert_rebuild.recipes.step_costs import Memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The requirements of a pretraining on the devices of a topology. Bytes are per device, seconds per optimizer step."""

    devices: str
    """The name of the devices."""

    device_count: int
    """The number of devices."""

    source: str
    """The page with their figures; "measured" for the CPU."""

    num_parameters: int
    """Parameters of the model with its heads."""

    batch_size: int
    """Examples of an optimizer step, on all devices together."""

    seq_len: int
    """Tokens of an example."""

    dtype: str
    """The dtype policy."""

    batch_per_device: int
    """Examples that a device processes at once."""

    memory: Memory
    """The estimated memory of a step."""

    available: float
    """Bytes of memory that a program can use."""

    fits: bool
    """Whether the estimated memory, or the measured memory, is available."""

    largest_batch: int
    """The largest batch_size that fits; 0 if not even one example per device does."""

    flops: float
    """Operations of the matrix products of a step, on all devices."""

    utilisation: float
    """The fraction of the devices' FLOP/s that the matrix products reach during computation."""

    derived_from: str
    """What the time of computation is derived from: the nearest measured step and its source, or an assumption."""

    packing: bool
    """Whether rows hold several sequences."""

    real_tokens: float
    """The fraction of the positions of a batch that are not padding."""

    device_flops: float
    """Operations per second of one device."""

    compute_seconds: float
    """The time of computation: operations / (devices · operations per second of a device · utilisation)."""

    all_reduce_bytes: int
    """Bytes of the gradients that each device contributes to the all-reduce."""

    all_reduce_seconds: float
    """The time of the all-reduce at the bandwidth of the links, without overlap with computation."""

    update_seconds: float
    """The time of the update at the bandwidth of the memory: weights and optimizer read and written, gradients read; 0 if unknown.
    Plus, for Muon, its matrix products, which are assumed to be as efficient as the model's."""

    step_seconds: float
    """The sum of these three times."""

    tokens_per_second: float
    """Tokens per second of all devices, without padding."""

    tokens: int
    """Tokens of the whole training, without padding."""

    steps: int
    """Optimizer steps of the whole training."""

    hours: float
    """Time of the whole training."""

    device_hours: float
    """Time of the whole training, times the number of devices."""

    notes: tuple = ()
    """Further notes, one sentence each."""

    measured: MeasuredMemory | None = None
    """The memory of steps that were run on this machine, if it was measured; it then determines `fits` and `largest_batch`."""

    compiled: dict | None = None
    """The report of the compiler for one device, if it was run: bytes of arguments, temporaries, the program and the all-reduce,
    and operations; or, if it refused the step, its message."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)
