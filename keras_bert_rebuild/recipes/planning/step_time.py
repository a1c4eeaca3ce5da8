"""The computing time of a step on a device, derived from measured steps.

    seconds = operations / (FLOP/s · 0.85) + passes · numbers · bytes of a number / pace + drawn · seconds of a drawn number

Matrix products run at the FLOP/s of a large one. Everything else is modelled as passes over an array of tokens · blocks · hidden
size numbers; the number of passes is derived from a measured step, and interpolated between several. Dropout costs as much as the
random numbers it draws. The pace is the published memory bandwidth, or, for a CPU, the FLOP/s of its products.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels.token_layout import WIDE
from keras_bert_rebuild.recipes.planning import measured_steps
from keras_bert_rebuild.recipes.planning.measured_steps import PRODUCTS, MeasuredStep
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS
from keras_bert_rebuild.recipes.pretraining.objectives import MaskedTokens
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.settings import size_fields
from keras_bert_rebuild.recipes.step_costs import Work, step_memory, trained_flops

# The utilisation if nothing was measured.
UTILISATION = 0.4
# The device whose steps stand in for GPUs without measurements.
TRANSFERRED = "h100"


@dataclass(frozen=True)
class Load:
    """The amount of computation of one device in a step."""

    flops: float
    """Operations of its matrix products."""

    numbers: float
    """Tokens · blocks · hidden size."""

    drawn: float
    """Random numbers that dropout draws."""

    tokens: float
    """Tokens of one micro-batch, with the padding that is computed."""

    seq_len: int
    """Tokens of an example."""

    width: int
    """Hidden size."""


def load_of(config, run, kind, real_tokens=1.0, passes=1, devices=1):
    """The `Load` of each device.

    Args:
        config: a `BertConfig`.
        run: `PretrainSettings` of one phase; its batch is shared by all devices.
        kind: "tpu", "gpu" or "cpu".
        real_tokens: the fraction of the positions of the batch that is not padding; 1 if the backend computes padding everywhere.
        passes: micro-batches per step.
        devices: number of devices.
    """
    phase = run.all_phases[0]
    slots = phase.batch_size * phase.seq_len
    if kind == "cpu" and _leaves_out_padding(config.encoder(), run):
        slots = max(round(slots * real_tokens), 1)
    predictions = phase.batch_size * min(phase.max_predictions, phase.seq_len)
    work = Work(slots, phase.batch_size * phase.seq_len**2, predictions, phase.batch_size)
    models = run.learned.models(config, run)
    encoders = [(trained.config.encoder(), slots * (1 + trained.again)) for trained in models]
    return Load(
        flops=sum(trained_flops(trained, work) for trained in models) / devices,
        numbers=sum(tokens * len(encoder.blocks) * encoder.width for encoder, tokens in encoders) / devices,
        drawn=sum(tokens * _drawn(encoder, phase.seq_len) for encoder, tokens in encoders) / devices,
        tokens=slots / (devices * passes),
        seq_len=phase.seq_len,
        width=encoders[-1][0].width,
    )


def _leaves_out_padding(encoder, run):
    """Whether blocks compute nothing but attention itself at padding on a processor; see `kernels.token_layout`."""
    return encoder.width >= WIDE and encoder.relative is None and run.learned.name == MaskedTokens.name and not run.remat


def _drawn(encoder, length):
    """Random numbers per token."""
    count = encoder.embedding.width if encoder.embedding.dropout else 0
    for block in encoder.blocks:
        attention = block.attention
        if attention.dropout:
            count += len(attention.present) * (length if attention.window is None else min(length, 2 * attention.window + 1))
        after_attention = block.dropout if attention.output_dropout is None else attention.output_dropout
        count += encoder.width * ((after_attention > 0) + (block.dropout > 0))
        count += block.feed_forward.inner if block.feed_forward.dropout else 0
    return count


def update_seconds(memory, device):
    """The time to read and write weights and optimizer and to read gradients; 0 if the bandwidth is unknown."""
    return (2 * (memory.parameters + memory.optimizer) + memory.gradients) / device.bandwidth if device.bandwidth else 0.0


def compute_seconds(load, topology, dtype):
    """The computing time of a step in seconds, without the update, and what it is derived from.

    Args:
        load: a `Load`.
        topology: a `plan_devices.Topology`.
        dtype: the dtype policy.

    Returns:
        `(seconds, words)`.
    """
    device, rate = topology.device, topology.device.flops(dtype)
    rows = [row for row in measured_steps.MEASURED if row.device == device.name]
    moved = ""
    if not rows and topology.kind == "gpu" and device.bfloat16:
        rows = [row for row in measured_steps.MEASURED if row.device == TRANSFERRED]
        moved = f", by the published rates of the {device.title}"
    if not rows:
        return load.flops / (rate * UTILISATION), f"{UTILISATION:.0%} is assumed: no step was measured on such a device"
    steps = [_timed(row) for row in rows if row.dtype == dtype] or [_timed(row) for row in rows]
    pace = device.bandwidth or rate
    passes = _mean(load, [(step.load, step.passes) for step in _plain(steps)])
    products = load.flops / (rate if topology.kind == "cpu" else rate * PRODUCTS)
    seconds = products + (passes * load.numbers * _size(dtype) + _bytes_of_draw(load, steps) * load.drawn) / pace
    nearest = min(steps, key=lambda step: _distance(load, step.load) + (step.row.dropout != (load.drawn > 0)))
    more = f" and {len(steps) - 1} other steps" if len(steps) > 1 else ""
    return seconds, f"{nearest.row.words}, {nearest.row.source}{more}{moved}"


@dataclass(frozen=True)
class Timed:
    """A measured step and the parts of its time."""

    row: MeasuredStep
    load: Load
    rest: float
    """Bytes that pass through memory at the pace in the time left beside products and the update."""

    @property
    def passes(self):
        """Passes over arrays of tokens · blocks · hidden size numbers."""
        return self.rest / (self.load.numbers * _size(self.row.dtype))


@functools.cache
def _timed(row):
    load, memory = _of_row(row)
    if row.rate is None:
        device = GPU_CARDS[row.device]
        rate, pace, update = device.flops(row.dtype) * PRODUCTS, device.bandwidth, update_seconds(memory, device)
    else:
        rate, pace, update = row.rate, row.rate, 0.0
    return Timed(row, load, (row.seconds - update - load.flops / rate) * pace)


def _of_row(row):
    """The `Load` and the `Memory` of a measured step."""
    config = BertConfig.from_dict(size_fields(row.model))
    if not row.dropout:
        config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    run = PretrainSettings(batch_size=row.batch_size, seq_len=row.seq_len, dtype=row.dtype)
    kind = "cpu" if row.device == "cpu" else "gpu"
    return load_of(config, run, kind, row.real_tokens), step_memory(config, run, kind, row.batch_size)


def published_beside(topology, dtype):
    """A sentence for each published step on such a device: its tokens per second, and the formula's for the same step."""
    for row in measured_steps.PUBLISHED:
        if (row.device, row.dtype) == (topology.device.name, dtype):
            load, memory = _of_row(row)
            one = dataclasses.replace(topology, shape=(1,))
            seconds = compute_seconds(load, one, dtype)[0] + update_seconds(memory, topology.device)
            speeds = [f"{load.tokens / taken:,.0f}" for taken in (row.seconds, seconds)]
            program = f"Another program, {row.words}: {speeds[0]} tokens per second ({row.source})"
            yield f"{program}; the same computation as here: {speeds[1]}."


def _plain(steps):
    """The steps without dropout; if there are none, all steps, whose random numbers then count as passes."""
    return [step for step in steps if not step.row.dropout] or steps


def _bytes_of_draw(load, steps):
    """Bytes that could pass through memory in the time of drawing one random number."""
    plain = [(step.load, step.passes) for step in _plain(steps)]
    dropped = [step for step in steps if step.row.dropout]
    if not load.drawn or not dropped or len(dropped) == len(steps):
        return 0.0
    costs = []
    for step in dropped:
        passed = _mean(step.load, plain) * step.load.numbers * _size(step.row.dtype)
        costs.append((step.load, (step.rest - passed) / step.load.drawn))
    return max(_mean(load, costs), 0.0)


def _mean(load, values):
    """The mean of values at measured loads, weighted by inverse distance; at a measured load, its own value.

    Reference: Shepard, 1968, "A two-dimensional interpolation function for irregularly-spaced data".
    """
    weights = [1 / (_distance(load, of) ** 2 + 1e-9) for of, _ in values]
    return sum(weight * value for weight, (_, value) in zip(weights, values, strict=True)) / sum(weights)


def _distance(one, other):
    pairs = ((one.tokens, other.tokens), (one.seq_len, other.seq_len), (one.width, other.width))
    return math.hypot(*(math.log(a / b) for a, b in pairs))


def _size(dtype):
    return 2 if dtype == "mixed_bfloat16" else 4
