"""What a step costs: operations of its matrix products, memory of a device tensor by tensor; and the FLOP/s of this machine."""

import math
import time
from dataclasses import dataclass

import keras
from keras import ops

from keras_bert_rebuild.anatomy.part import BLOCK, COMPUTE, EMBEDDING, FLOAT32, PRODUCT, Held, letters_of, value
from keras_bert_rebuild.anatomy.parts import parts_of, weights_of
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.training.distributed.distribution import part_held
from keras_bert_rebuild.training.optimizers.muon import ROUNDS, is_matrix


@dataclass(frozen=True)
class Work:
    """The amount of work in a batch, without padding; instances can be added."""

    tokens: int = 0
    """Tokens of all examples."""

    squares: int = 0
    """The sum of the squared lengths of the examples; the cost of attention is proportional to it."""

    predictions: int = 0
    """Positions to predict."""

    examples: int = 0
    """Examples."""

    def __add__(self, other):
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def forward_flops(config, work, pair_head=True, heads=None):
    """Multiplications and additions of the matrix products of a forward pass with an MLM head.

    The operations of the anatomy, where the square of the tokens of a text is `squares`, and the texts of a batch are `examples`:

        per token and block       2 (4 D² + 2 D F)        projections of attention, feed-forward
        per example and block     4 L² D                  queries by keys, probabilities by values
        per prediction            2 (D E + E V)           transform and vocabulary
        per example               2 (D² + 2 D)            pooler and pair head

    Attention within a window takes 4 L V D instead, where V is the number of keys each token attends to in a text of mean length.

    Args:
        config: a `BertConfig`.
        work: a `Work`.
        pair_head: whether there is an NSP or SOP head.
        heads: the names of the heads; None for "mlm" and, with `pair_head`, the pair head.

    Reference: Kaplan et al., 2020, section 2.1 (https://arxiv.org/abs/2001.08361).
    """
    encoder = config.encoder()
    letters = letters_of(encoder, length=math.ceil(work.tokens / max(work.examples, 1)))
    parts = parts_of(encoder, (("mlm", "nsp") if pair_head else ("mlm",)) if heads is None else heads)
    return sum(_of_work(term, letters, work) * runs for part, _, runs in parts for term in part.operations.split(" + "))


def _of_work(term, letters, work):
    """The value of a product of letters for this work."""
    factors = term.split("·")
    tokens, predictions = factors.count("S"), factors.count("N")
    if letters.get("V") == letters["S"]:  # short texts, compared as a whole
        tokens += factors.count("V")
        factors = [factor for factor in factors if factor != "V"]
    rows = work.predictions if predictions else (work.examples, work.tokens, work.squares)[tokens]
    return rows * value("·".join(factor for factor in factors if factor not in ("B", "S", "N")), letters)


def trained_flops(trained, work):
    """Operations that a model adds to a training step: with its second stream if it has one; a frozen model only runs forward.

    Args:
        trained: an `objectives.Trained`.
        work: a `Work`.
    """
    if trained.frozen:
        return forward_flops(trained.config, work, heads=trained.heads)
    again = Work(round(work.tokens * trained.again), round(work.squares * trained.again))
    return sum(train_flops(trained.config, of, heads=trained.heads) for of in (work, again))


def train_flops(config, work, pair_head=True, heads=None):
    """Operations of a training step: the forward pass, and twice as many for the gradients of activations and weights."""
    return 3 * forward_flops(config, work, pair_head, heads)


def embedding_params(config):
    """Parameters of the embedding tables and norm, which two models can share; without a projection to another width."""
    encoder = config.encoder()
    letters = letters_of(encoder)
    parts = [part for part, _, _ in parts_of(encoder, ()) if part.section == EMBEDDING and part.layer != "Embedding-Mapping"]
    return sum(part.count(letters) for part in parts)


def matrix_ceiling(dtype="float32", seconds=0.5):
    """Floating-point operations per second of a large matrix product as layers compute it, the fastest of several runs.

    Args:
        dtype: dtype of the matrices.
        seconds: about how long to measure.
    """
    size = 1024
    while True:  # a product that takes long compared with the overhead of the call
        layer = keras.layers.Dense(size, use_bias=False, kernel_initializer=keras.initializers.Constant(1 / size), dtype=dtype)
        layer.build((None, size))
        matrix = ops.full((size, size), 1 / size, dtype=dtype)
        _product(layer, matrix)
        taken = _product(layer, matrix)
        if taken > seconds / 20 or size >= 16384:
            break
        size *= 2
    times = [taken]
    while sum(times) < seconds:
        times.append(_product(layer, matrix))
    return 2 * size**3 / min(times)


def _product(layer, matrix):
    started = time.perf_counter()
    float(ops.convert_to_numpy(ops.cast(product(layer, matrix)[0, 0], "float32")))  # waits for the device
    return time.perf_counter() - started


# An upper bound that no training reaches; a model without blocks would have no limit.
MAX_EXAMPLES = 1 << 30

# With rematerialisation a block stores only its input.
REMATERIALISED = Held("input of the block", ("S", "H"))


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step needs on each device, which has a part of the batch, and all weights or, sharded, its part."""

    parameters: int
    """Weights, float32."""

    optimizer: int
    """Moments, averages and accumulated gradients, float32."""

    activations: int
    """What the forward pass stores for the backward pass."""

    working: int
    """What the backward pass of one block, or of the head, needs in addition."""

    gradients: int
    """Gradients, until they are summed over the devices and applied."""

    total: int
    """The peak: during the backward pass, gradients replace activations."""


def step_memory(config, settings, kind, batch_size, devices=1):
    """The memory of one device in a training step.

        total = parameters + optimizer + max(activations + working + gradients of the vocabulary head, gradients)

    Not counted: the program itself, memory of the driver, and gaps between arrays.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        kind: "tpu", "gpu" or "cpu".
        batch_size: examples that this device processes at once.
        devices: number of devices that share the batch.
    """
    phase = settings.all_phases[0]
    share = held_share(config, settings, devices)
    size_of = {COMPUTE: 2 if settings.dtype == "mixed_bfloat16" else 4, FLOAT32: 4}
    size_of[PRODUCT] = 2 if kind == "tpu" else size_of[COMPUTE]

    def table(of):
        return _tiles((config.vocab_size, config.embedding_width), kind) * size_of[of]

    models = settings.learned.models(config, settings)
    trained = [model for model in models if not model.frozen]
    blocks = [_of_blocks(model.config.encoder(), settings, kind, size_of) for model in trained]
    of_trained = 4 * num_params(config, settings)
    parameters = of_trained + 4 * sum(model.num_params for model in models if model.frozen)
    saved = [batch_size * kept * (1 + model.again) for model, (kept, _) in zip(trained, blocks, strict=True)]
    activations = round(sum(saved))
    working = batch_size * max(at_work for _, at_work in blocks)  # the backward pass is in one block at a time
    positions = batch_size * min(phase.max_predictions, phase.seq_len)
    if settings.loss_chunk is None:
        of_head, numbers = table(COMPUTE), _tiles((positions, config.vocab_size), kind)
        computed, in_float32 = settings.learned.arrays_of_logits(settings, kind)
        logits = numbers * (computed * size_of[COMPUTE] + in_float32 * size_of[FLOAT32])
    else:
        logits, of_head = 3 * _tiles((settings.loss_chunk, config.vocab_size), kind) * size_of[FLOAT32], table(FLOAT32)
    later = sum(size for model, size in zip(trained, saved, strict=True) if model.after_logits)
    working = max(working, round(logits - later))
    if share < 1:  # what is gathered, and the gradient of the look-up before it is scattered
        working += size_of[COMPUTE] * num_params(config, settings) + table(FLOAT32)
    gradients = round(share * gradient_bytes(config, settings))
    state = of_trained * optimizer_copies(settings) - sum(4 * rows * columns for rows, columns in _matrices(config, settings))
    parameters, state = round(share * parameters), round(share * state)
    maximum = max(activations + working + of_head, gradients)
    return Memory(parameters, state, activations, working, gradients, parameters + state + maximum)


def num_params(config, settings):
    """The parameters of all models that a step trains, shared ones counted once, frozen models excluded."""
    return sum(trained.num_params for trained in settings.learned.models(config, settings) if not trained.frozen)


def _of_blocks(encoder, settings, kind, size_of):
    """Bytes per example: what all blocks store for the backward pass, and what the backward pass of one block needs."""
    letters = letters_of(encoder, length=settings.all_phases[0].seq_len)
    # A fused kernel recomputes the scores; processors have no such kernel. Dropout of the probabilities has one on GPUs only, but
    # elsewhere, too, its form for JAX computes the scores again: those of one block exist at a time.
    dropped = any(block.attention.dropout > 0 for block in encoder.blocks)
    plain = kind == "cpu" and not dropped

    def add(rows, scores, with_recomputed):
        kept = [held for held in rows if (scores or not held.scores) and (with_recomputed or not held.recomputed)]
        return sum(_numbers(held, letters, kind) * size_of[held.dtype] for held in kept)

    parts, on_tpu = [(part, runs) for part, _, runs in parts_of(encoder, ())], kind == "tpu"
    in_blocks = [(part, runs) for part, runs in parts if part.section == BLOCK]
    stored = sum(add(part.held, plain, not on_tpu) * runs for part, runs in in_blocks)
    before = sum(add(part.held, plain, not on_tpu) * runs for part, runs in parts if part.section == EMBEDDING)
    working = sum(add(part.working, plain or (dropped and kind != "gpu"), on_tpu) for part, _ in in_blocks)
    if settings.remat:
        inputs = len(encoder.blocks) * add([REMATERIALISED], plain, on_tpu)
        return before + inputs, working + stored // max(len(encoder.blocks), 1)
    return before + stored, working


def held_share(config, settings, devices):
    """The part of all weights that each device holds."""
    if settings.distribute != "sharded":
        return 1.0
    models = settings.learned.models(config, settings)
    weights = [item for model in models for item in weights_of(model.config.encoder(), model.heads).items()]
    return part_held([(path, shape) for path, (_, shape) in weights], devices)


def gradient_bytes(config, settings):
    """Bytes of all gradients of a step, which is also what each device contributes to the all-reduce.

    A gradient has the dtype of the computation it comes from. The token table has two gradients, that of the look-up, in float32,
    and that of the head, which are added after the all-reduce. With a generator and a discriminator there are two look-ups.
    """
    size = 2 if settings.dtype == "mixed_bfloat16" else 4
    look_ups = sum(not trained.frozen for trained in settings.learned.models(config, settings))
    return size * num_params(config, settings) + look_ups * 4 * config.vocab_size * config.embedding_width


def optimizer_copies(settings):
    """The number of arrays as large as the weights that the optimizer holds; Muon needs one less for its matrices."""
    return 2 + (settings.ema is not None) + (settings.gradient_accumulation_steps > 1)


def orthogonal_flops(config, settings):
    """Operations of an update beyond elementwise ones: Muon's matrix products, five iterations for every matrix."""
    sides = [sorted(shape) for shape in _matrices(config, settings)]
    return sum(ROUNDS * (4 * small**2 * large + 2 * small**3) for small, large in sides)


def _matrices(config, settings):
    """The shapes of the weights whose updates Muon orthogonalises; none for another optimizer."""
    models = settings.learned.models(config, settings) if settings.optimizer == "muon" else []
    weights = [weights_of(trained.config.encoder(), trained.heads) for trained in models if not trained.frozen]
    return [shape for shapes in weights for path, (_, shape) in shapes.items() if is_matrix(path, shape)]


def largest_batch(config, settings, kind, available, devices=1):
    """The maximum number of examples that a device can process at once; 0 if not even one fits.

    Args:
        config, settings, kind, devices: as for `step_memory`.
        available: bytes of the device.
    """
    low, high = 0, 1
    while high < MAX_EXAMPLES and step_memory(config, settings, kind, high, devices).total <= available:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = step_memory(config, settings, kind, middle, devices).total <= available
        low, high = (middle, high) if fits else (low, middle)
    return low


def _numbers(held, letters, kind):
    """How many numbers are allocated for the arrays of a `Held`."""
    return value(held.times, letters) * _tiles([value(size, letters) for size in held.shape], kind)


def _tiles(shape, kind):
    """How many numbers are allocated for an array; on a TPU the last two axes are padded to multiples of 8 and 128."""
    if kind != "tpu" or len(shape) < 2:
        return math.prod(shape)
    *outer, rows, columns = shape
    return math.prod(outer) * math.ceil(rows / 8) * 8 * math.ceil(columns / 128) * 128
