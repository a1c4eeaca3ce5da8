"""The result of a plan."""

from dataclasses import asdict, dataclass
from typing import Any

from keras_bert_rebuild.recipes.planning.measured_memory import MeasuredMemory
from keras_bert_rebuild.recipes.step_costs import Memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a pretraining needs on the devices of a topology. Bytes are per device, seconds per optimizer step."""

    devices: str
    """The name of the devices."""

    device_count: int
    """The number of devices."""

    source: str
    """The page with their figures; "measured" for the processor."""

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
    """Bytes that a program can use."""

    fits: bool
    """Whether the estimate, or what was measured, is at most that."""

    largest_batch: int
    """The largest batch_size that fits; 0 if not even one example per device does."""

    flops: float
    """Operations of the matrix products of a step, on all devices."""

    utilisation: float
    """The fraction of the devices' rate that the matrix products reach in the time of computation."""

    derived_from: str
    """What the time of computation is derived from: the nearest measured step and its source, or what is assumed."""

    packing: bool
    """Whether rows hold several sequences."""

    real_tokens: float
    """The fraction of the places of a batch that is not padding."""

    device_flops: float
    """The rate of one device, operations per second."""

    compute_seconds: float
    """The time of computation: operations / (devices · rate · utilisation)."""

    all_reduce_bytes: int
    """Gradients that each device contributes to the sum over all devices."""

    all_reduce_seconds: float
    """The time of the sum at the rate of the links, without overlap with computation."""

    update_seconds: float
    """The time of the update at the rate of the memory: weights and optimizer read and written, gradients read; 0 if not known. And
    of Muon's products, at the efficiency of those of the model."""

    step_seconds: float
    """The sum of the three."""

    tokens_per_second: float
    """Tokens per second of all devices, without padding."""

    tokens: int
    """Tokens of the whole training, without padding."""

    steps: int
    """Optimizer steps for them."""

    hours: float
    """Time for them."""

    device_hours: float
    """Time times devices."""

    notes: tuple = ()
    """Further notes, one sentence each."""

    measured: MeasuredMemory | None = None
    """The memory of steps that were run on this processor, if it was measured; `fits` and `largest_batch` are then from it."""

    compiled: dict | None = None
    """What the TPU compiler reports for one chip, if it was run: bytes of arguments, temporaries, the program and of what is
    summed over the chips, and operations; or, if it refused the step, why."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)
