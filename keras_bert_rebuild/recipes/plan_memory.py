"""What a training step holds in the memory of a device, tensor by tensor."""

import math
from dataclasses import dataclass

# Bytes of a number: of the dtype policy's arithmetic, of what only goes into products, and of what is float32 under every policy.
# A TPU rounds the operands of products to bfloat16, also under float32, and its compiler keeps them so.
COMPUTE, PRODUCT, FLOAT32 = "compute", "product", "float32"

# What an encoder block keeps from the forward to the backward pass: what it is, numbers of one example, bytes of each. `s` are
# sizes, l tokens, d and f the widths, h heads; `s.tiles(rows, columns)` counts what an array of that shape takes. All else is
# computed again inside the operations that need it: norms from their input and its moments, the activation, dropout from its seed.
KEPT = (
    ("queries, keys, values", lambda s: 3 * s.tiles(s.l, s.d), PRODUCT),
    ("attention scores", lambda s: s.h * s.tiles(s.l, s.l) if s.scores else 0, FLOAT32),
    ("maximum and sum of their rows", lambda s: 2 * s.tiles(s.h, s.l), FLOAT32),
    ("what attention gathers", lambda s: s.h * s.tiles(s.d // s.h, s.l), PRODUCT),
    ("sums before the two norms", lambda s: 2 * s.tiles(s.l, s.d), COMPUTE),
    ("mean and variance of each", lambda s: 4 * s.l, FLOAT32),
    ("values before the activation", lambda s: s.tiles(s.l, s.f), COMPUTE),
)

# What the backward pass of one block needs besides, each with room of its own: values again, their gradients, those before them.
WORKING = (
    ("activation: values and two gradients", lambda s: 3 * s.tiles(s.l, s.f), COMPUTE),
    ("attention: probabilities and two gradients", lambda s: 3 * s.h * s.tiles(s.l, s.l) if s.scores else 0, COMPUTE),
)

# With rematerialisation a block keeps its input.
REMATERIALISED = (("input of the block", lambda s: s.tiles(s.l, s.d), COMPUTE),)


@dataclass(frozen=True)
class Memory:
    """Bytes of a device in a training step, where every device holds all weights and a part of the batch."""

    parameters: int
    """Weights, float32."""

    optimizer: int
    """Moments, averages and accumulated gradients, float32."""

    activations: int
    """What the forward pass keeps for the backward pass."""

    working: int
    """What the backward pass of one block, or of the head, needs besides."""

    gradients: int
    """Gradients that wait to be summed over the devices and applied."""

    total: int
    """The most that is held at once: as the backward pass goes on, gradients come where activations were."""


def step_memory(config, settings, kind, batch_size):
    """The memory of one device in a training step.

        total = parameters + optimizer + max(activations + working + gradients of the vocabulary head, gradients)

    Left out are the program itself, what the driver takes, and gaps between arrays.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        kind: "tpu", "gpu" or "cpu".
        batch_size: examples of this device that go through the model at once.
    """
    phase = settings.all_phases[0]
    sizes = _Sizes(config, phase.seq_len, kind)
    size_of = {COMPUTE: 2 if settings.dtype == "mixed_bfloat16" else 4, FLOAT32: 4}
    size_of[PRODUCT] = 2 if kind == "tpu" else size_of[COMPUTE]

    def add(rows):
        return sum(count(sizes) * size_of[dtype] for _, count, dtype in rows)

    def table(of):
        return sizes.tiles(config.vocab_size, config.embedding_width) * size_of[of]

    parameters = 4 * config.num_params(settings.heads)
    block, working = add(KEPT), batch_size * add(WORKING)
    activations = batch_size * config.num_hidden_layers * (add(REMATERIALISED) if settings.remat else block)
    if settings.remat:
        working += batch_size * block
    # The head's logits and their gradient.
    positions = batch_size * min(phase.max_predictions, phase.seq_len)
    if settings.loss_chunk is None:
        logits, of_head = 2 * sizes.tiles(positions, config.vocab_size) * size_of[COMPUTE], table(COMPUTE)
    else:
        logits, of_head = 3 * sizes.tiles(settings.loss_chunk, config.vocab_size) * size_of[FLOAT32], table(FLOAT32)
    working = max(working, logits)
    gradients = gradient_bytes(config, settings)
    state = parameters * optimizer_copies(settings)
    most = max(activations + working + of_head, gradients)
    return Memory(parameters, state, activations, working, gradients, parameters + state + most)


def gradient_bytes(config, settings):
    """Bytes of all gradients of a step, which is also what a device gives into the sum over the devices.

    A gradient has the dtype of the pass it comes from. The token table has two: that of the look-up, in float32, and that of the
    head, which are added after the sum.
    """
    size = 2 if settings.dtype == "mixed_bfloat16" else 4
    return size * config.num_params(settings.heads) + 4 * config.vocab_size * config.embedding_width


def optimizer_copies(settings):
    """Arrays of the size of the weights that the optimizer keeps."""
    return 2 + (settings.ema is not None) + (settings.gradient_accumulation_steps > 1)


def largest_batch(config, settings, kind, available):
    """The most examples of a device that go through the model at once; 0 where not one does.

    Args:
        config, settings, kind: as for `step_memory`.
        available: bytes of the device.
    """
    low, high = 0, 1
    while step_memory(config, settings, kind, high).total <= available:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_memory(config, settings, kind, middle).total <= available else (low, middle)
    return low


class _Sizes:
    """The sizes of a block under short names, for the tables above."""

    def __init__(self, config, length, kind):
        self.l, self.d, self.f = length, config.hidden_size, config.intermediate_size
        self.h = config.num_attention_heads
        # Without dropout of the probabilities a fused kernel computes the scores again; processors have none.
        self.scores = config.attention_probs_dropout_prob > 0 or kind == "cpu"
        self.kind = kind

    def tiles(self, rows, columns):
        """Numbers that an array has room for; on a TPU the last two axes are filled up to multiples of 8 and 128."""
        if self.kind != "tpu":
            return rows * columns
        return math.ceil(rows / 8) * 8 * math.ceil(columns / 128) * 128
