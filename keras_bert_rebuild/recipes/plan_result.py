"""What a plan says."""

from dataclasses import asdict, dataclass
from typing import Any

from keras_bert_rebuild.recipes.plan_memory import Memory


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a pretraining takes on the devices of a topology. Bytes are those of one device, seconds those of an optimizer step."""

    devices: str
    """What the devices are called."""

    device_count: int
    """How many there are."""

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
    """Examples of a device that go through the model at once."""

    memory: Memory
    """What a step holds, estimated."""

    available: float
    """Bytes that a program can have."""

    fits: bool
    """Whether the estimate is below that."""

    largest_batch: int
    """The largest batch_size whose estimate is below that; 0 where not one example for each device is."""

    flops: float
    """Operations of the matrix products of a step, on all devices."""

    utilisation: float
    """The part of the devices' rate that is assumed to be reached."""

    device_flops: float
    """That rate of one device, operations per second."""

    compute_seconds: float
    """Operations / (devices · rate · utilisation)."""

    all_reduce_bytes: int
    """Gradients that each device gives into the sum over all devices."""

    all_reduce_seconds: float
    """What the sum takes at the rate of the links, with nothing computed meanwhile."""

    update_seconds: float
    """What the update takes at the rate of the memory: weights and optimizer read and written, gradients read; 0 if not known."""

    step_seconds: float
    """The three together."""

    tokens_per_second: float
    """Of all devices."""

    tokens: int
    """Tokens of the whole training."""

    steps: int
    """Optimizer steps for them."""

    hours: float
    """Time for them."""

    device_hours: float
    """Time times devices."""

    notes: tuple = ()
    """What else to know, a sentence each."""

    compiled: dict | None = None
    """What the TPU compiler says of one chip, where it was asked: bytes of arguments, temporaries, the program and of what is
    summed over the chips, and operations; or, where it refused the step, why."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)
