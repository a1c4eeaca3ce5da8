"""Plan a pretraining on devices that are not at hand: whether it fits into memory, how fast it is, and how long it takes."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.planning.ask_compiler import CARDS, CHIPS, ask_compiler, can_compile
from keras_bert_rebuild.recipes.planning.measured_memory import MeasuredMemory, measure_memory
from keras_bert_rebuild.recipes.planning.plan_devices import topology_of
from keras_bert_rebuild.recipes.planning.step_time import compute_seconds, load_of, published_beside, update_seconds
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.settings import size_fields
from keras_bert_rebuild.recipes.step_costs import Memory, gradient_bytes, largest_batch, num_params, orthogonal_flops, step_memory


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
    """Bytes of the gradients that each device contributes to the all-reduce; to the reduce-scatter if weights are sharded."""

    all_reduce_seconds: float
    """The time of that sum at the bandwidth of the links, and of gathering sharded weights, without overlap with computation."""

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


BILLION = 1_000_000_000

# The settings that a plan depends on.
SETTINGS = (
    *("batch_size", "seq_len", "max_predictions", "mask_rate", "dtype", "objective", "generator_size", "next_sentence"),
    *("optimizer", "ema", "gradient_accumulation_steps", "remat", "loss_chunk", "distribute"),
)


def plan(
    model: str | os.PathLike[str] | BertConfig | Mapping[str, Any] = "base",
    *,
    tpu: str | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    cpu: bool = False,
    tokens: int = BILLION,
    utilisation: float | None = None,
    packing: bool = False,
    real_tokens: float | None = None,
    compile: bool = False,
    measure: bool = False,
    vocab_size: int | None = None,
    **settings: Any,
) -> Plan:
    """Plan a pretraining as `pretrain` would run it: memory, step time, device hours.

    Every device holds a part of the batch and, unless `distribute="sharded"`, all weights. The time of a step is the sum of three:
    computation, sums and gathers at the bandwidth of the links, and the update at that of the memory. Computation is derived from
    measured steps (`measured_steps.MEASURED`, by the formula of `step_time`), or from the given fraction of the published FLOP/s.

    Args:
        model: a size (tiny, mini, small, medium, base, large, transformer-base, transformer-big, electra-small,
            electra-base, electra-large, xlnet-base, xlnet-large), the path of a config.json, a `BertConfig` or its fields.
        tpu: a slice, such as "v5e:4x4".
        gpus: number of GPUs; 1 if only `gpu` is given.
        gpu: a GPU model, such as "h100".
        cpu: plan for the CPU of this machine, whose FLOP/s are measured.
        tokens: tokens of the whole training.
        utilisation: the fraction of the peak FLOP/s that is reached, in (0, 1]; None to derive it from measured steps, or 0.4 for
            kinds of devices without measurements.
        packing: whether rows hold several sequences, and so have no padding; without a sentence-pair task.
        real_tokens: the fraction of the positions of a batch that are not padding if every sequence has its own row, in (0, 1];
            None for 1.
        compile: also compile the step for that device, which takes minutes for a TPU; it needs the extra `tpu`, or JAX for CUDA,
            but not the device.
        measure: on the CPU of this machine, run a few steps of at most 4,096 tokens, and of the whole batch if that takes less than
            two minutes; otherwise extrapolate their memory to it. The estimate alone assumes a program that XLA compiles for an
            accelerator, which is a lower bound on a CPU.
        vocab_size: tokens of the vocabulary, instead of the model's.
        **settings: fields of `PretrainSettings` among `SETTINGS`, such as batch_size, seq_len and dtype.

    Returns:
        A `Plan`.

    Raises:
        ValueError: not exactly one kind of device is given, a device or slice is unknown, the length exceeds the position table,
            the batch cannot be split over the devices, settings are out of range, or memory cannot be measured here.

    Example:

    >>> large = plan("large", tpu="v5e:4x4", batch_size=1024, seq_len=128, dtype="mixed_bfloat16")
    >>> large.num_parameters, large.batch_per_device, large.fits
    (336226108, 64, True)
    """
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        raise ValueError(f"a plan accepts the settings {', '.join(SETTINGS)}; got {', '.join(unknown)}.")
    run = PretrainSettings(packing=packing, **settings)
    config = _config(model, vocab_size, run)
    phase = run.all_phases[0]
    if phase.seq_len > config.max_length:
        raise ValueError(f"seq_len must be at most {config.max_length}, the rows of the position table; got {phase.seq_len}.")
    for name, fraction in (("utilisation", utilisation), ("real_tokens", real_tokens)):
        if fraction is not None and (not is_number(fraction) or not 0 < fraction <= 1):
            raise ValueError(f"{name} must be a number above 0 and at most 1; got {fraction!r}.")
    if not is_number(tokens) or tokens < 1:
        raise ValueError(f"tokens must be a number of at least 1; got {tokens!r}.")
    topology = topology_of(tpu, gpus, gpu, cpu, run.dtype)
    if compile and not can_compile(topology.device):
        targets = f"a slice of {', '.join(CHIPS)}, such as tpu='v5e:4x4', or a GPU among {', '.join(CARDS)}"
        raise ValueError(f"compile must be for {targets}; got {topology.words}.")
    if measure and topology.kind != "cpu":
        raise ValueError(f"measure must be for the CPU of this machine, cpu=True; got {topology.words}.")
    passes = run.gradient_accumulation_steps
    if phase.batch_size % (topology.count * passes):
        times = "" if passes == 1 else f" times gradient_accumulation_steps={passes}"
        raise ValueError(f"batch_size must be a multiple of the {topology.count} devices{times}; got {phase.batch_size}.")
    per_device = phase.batch_size // (topology.count * passes)
    memory = step_memory(config, run, topology.kind, per_device, topology.count)
    measured = measure_memory(config, run, per_device) if measure else None
    if measured is None:
        at_once, largest = memory.total, largest_batch(config, run, topology.kind, topology.device.memory, topology.count)
    else:
        at_once, largest = measured.total, measured.largest(topology.device.memory)
    filled = 1.0 if packing or real_tokens is None else real_tokens
    # Batches differ in their number of tokens: who compiles each shape computes padding.
    computed = 1.0 if traits.compiles_each_shape() else filled
    load = load_of(config, run, topology.kind, computed, passes, topology.count)
    rate = topology.device.flops(run.dtype)
    if utilisation is None:
        compute, derived = compute_seconds(load, topology, run.dtype)
    else:
        compute, derived = load.flops / (rate * utilisation), "the MFU that was given"
    size = gradient_bytes(config, run) if topology.count > 1 else 0
    # An all-reduce is a scatter of sums and a gather, of weights if these are sharded.
    gathered = num_params(config, run) * (2 if run.dtype == "mixed_bfloat16" else 4) if run.distribute == "sharded" else size
    all_reduce = passes * (topology.all_reduce_seconds(size) + topology.all_reduce_seconds(gathered)) / 2
    # The matrix products of Muon are assumed to be as efficient as the model's.
    update = update_seconds(memory, topology.device) + orthogonal_flops(config, run) / load.flops * compute
    seconds = compute + all_reduce + update
    real = phase.batch_size * phase.seq_len * filled
    steps = math.ceil(tokens / real)
    hours = steps * seconds / 3600
    return Plan(
        devices=topology.words,
        device_count=topology.count,
        source=topology.device.source,
        num_parameters=num_params(config, run),
        batch_size=phase.batch_size,
        seq_len=phase.seq_len,
        dtype=run.dtype,
        batch_per_device=per_device,
        memory=memory,
        available=topology.device.memory,
        fits=at_once <= topology.device.memory,
        largest_batch=largest * topology.count * passes,
        flops=load.flops * topology.count,
        utilisation=load.flops / (rate * compute),
        derived_from=derived,
        packing=packing,
        real_tokens=filled,
        device_flops=rate,
        compute_seconds=compute,
        all_reduce_bytes=size,
        all_reduce_seconds=all_reduce,
        update_seconds=update,
        step_seconds=seconds,
        tokens_per_second=real / seconds,
        tokens=int(tokens),
        steps=steps,
        hours=hours,
        device_hours=hours * topology.count,
        notes=(*_notes(topology, run, measured), *(published_beside(topology, run.dtype) if utilisation is None else ())),
        measured=measured,
        compiled=ask_compiler(config, run, topology, per_device) if compile else None,
    )


def _config(model, vocab_size, run):
    if run.distribute not in ("auto", "data", "sharded"):
        raise ValueError(f"distribute must be 'data' or 'sharded' in a plan; got {run.distribute!r}.")
    values = run.learned.fields(model.to_dict() if isinstance(model, BertConfig) else size_fields(model))
    return BertConfig.from_dict(values if vocab_size is None else {**values, "vocab_size": vocab_size})


def _notes(topology, settings, measured):
    if topology.kind == "cpu" and measured is None:
        yield (
            "The memory is a lower bound: on a processor a run takes 1.2 to 5 times as much, by backend; measuring it "
            "(--measure, measure=True) takes about a minute."
        )
    if settings.dtype == "mixed_bfloat16" and topology.device.bfloat16 is None:
        yield f"{topology.device.title} has no units for bfloat16: its products run at the rate of float32."
    if topology.kind == "gpu" and topology.count > 8:
        yield "Hosts of eight, summed within each host first and then between them."
