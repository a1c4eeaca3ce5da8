"""The parts of an encoder in execution order, and sums over them."""

from collections import Counter
from dataclasses import replace

from keras_bert_rebuild.anatomy.block_parts import block_parts, every_block_part, norm_part, norm_weights
from keras_bert_rebuild.anatomy.heads import CRF_PART, HEADS, MLM_PARTS, POOLER_PART
from keras_bert_rebuild.anatomy.part import (
    BLOCK,
    EMBEDDING,
    MODEL,
    Part,
    Weight,
    in_letters,
    letters_of,
    value,
)


def parts_of(encoder, heads):
    """The parts of an encoder with heads.

    Args:
        encoder: an `Encoder`.
        heads: names of heads, keys of `encoder.heads`.

    Returns:
        Triples of a `Part`, the number of distinct blocks that have it, and how often it runs; 1 and 1 outside blocks.
    """
    # Blocks with all norms come first, so that the parts are in the order of the graph.
    distinct = Counter(
        part for block in sorted(encoder.distinct, key=lambda block: not block.first_norm) for part in block_parts(block)
    )
    runs = Counter(part for block in encoder.blocks for part in block_parts(block))
    layers = [part.layer for part in distinct]  # parts of one layer, such as full and windowed attention, are adjacent
    distinct = {part: distinct[part] for part in sorted(distinct, key=lambda part: layers.index(part.layer))}
    parts = [
        *((part, 1, 1) for part in _before_blocks(encoder)),
        *((part, distinct[part], runs[part]) for part in distinct),
        *((part, 1, 1) for part in _after_blocks(encoder, heads)),
    ]
    return [(_spelled(encoder, part), blocks, times) for part, blocks, times in parts]


def weights_of(encoder, heads):
    """The weights of an encoder with the given heads.

    Returns:
        A dictionary from variable path to the `Weight` and its shape in numbers, in the order of the parts.
    """
    letters = letters_of(encoder)
    numbered = [
        *((part, 0) for part in _before_blocks(encoder)),
        *((part, block.number) for block in encoder.distinct for part in block_parts(block)),
        *((part, 0) for part in _after_blocks(encoder, heads)),
    ]
    return {
        f"{part.layer.format(n=number)}/{weight.role}": (weight, tuple(value(size, letters) for size in weight.shape))
        for part, number in numbered
        for weight in part.weights
    }


def num_params(encoder, heads):
    """Parameter count of an encoder with the given heads, computed without building it."""
    letters = letters_of(encoder)
    return sum(part.count(letters) * blocks for part, blocks, _ in parts_of(encoder, heads))


def every_part():
    """The parts of an encoder that has everything, for tables of patterns that fit every encoder."""
    return [
        _TOKENS,
        _POSITIONS,
        _WIDENING,
        *every_block_part(),
        POOLER_PART,
        *(part for head in HEADS.values() for part in head.parts),
    ]


def adapted_patterns():
    """Patterns for the ends of variable paths: the kernels that get low-rank adapters by default."""
    modules = {}
    for part in every_part():
        for weight in part.weights:
            if weight.adapter:
                modules.setdefault(part.layer.rpartition("-")[2], []).append(weight.role.partition("/")[0])
    return tuple(f"{layer}/({'|'.join(names)})/kernel$" for layer, names in modules.items())


_TABLE = Weight("embeddings", ("T", "E"), ((MODEL, None), (None, MODEL)))
_TOKENS = Part(2, EMBEDDING, "Token embedding", "Embedding-Token", (_TABLE,))
_POSITIONS = Part(4, EMBEDDING, "Position embedding", "Embedding-Position", (Weight("embeddings", ("P", "E")),), spelling="E·P")
_QUERY = Part(None, EMBEDDING, "Query vector", "Embedding-Query", (Weight("vector", ("1", "E")),))
_SCALE = Part(None, EMBEDDING, "Scaling", "Embedding-Scale")
_SINUSOIDS = Part(4, EMBEDDING, "Positional encoding", "Embedding-Position")
_TASKS = Part(None, EMBEDDING, "Task embedding", "Embedding-Task", (Weight("embeddings", ("K", "E")),))
_WIDENING = Part(
    None,
    EMBEDDING,
    "Widening",
    "Embedding-Mapping",
    (Weight("kernel", ("E", "H")), Weight("bias", ("H",))),
    operations="2·B·S·E·H",
    kept="B·S·E",
)


# Disentangled positions with all weights they can have.


def _before_blocks(encoder):
    """The embedding, and the table of distances if blocks share one."""
    yield from _embedding_parts(encoder)
    if encoder.relative is not None and encoder.relative.kind == "relative":
        yield Part(None, EMBEDDING, "Sinusoids of distances", "Embedding-Relative")
        yield Part(None, EMBEDDING, "Segment differences", "Embedding-Relative-Segment", kept="B·S·S")
    elif encoder.relative is not None:
        rows = Weight("embeddings", ("R", "H"))
        yield Part(None, EMBEDDING, "Table of distances", "Embedding-Relative", (rows,))
        if encoder.relative.norm is not None:
            weights = norm_weights(encoder.relative.norm, "H")
            yield Part(None, EMBEDDING, "Norm of distances", "Embedding-Relative-Norm", weights, kept="R·H")


def _embedding_parts(encoder):
    embedding = encoder.embedding
    segments = ", Input-Segment" if encoder.reads_segments else ""
    yield Part(1, EMBEDDING, "Inputs", f"Input-Token{segments}")
    yield _TOKENS
    if embedding.scale != 1:
        yield _SCALE
    if embedding.query:
        yield _QUERY
    if embedding.segments:
        rows = Weight("embeddings", (str(embedding.segments), "E"))
        yield Part(3, EMBEDDING, "Segment embedding", "Embedding-Segment", (rows,))
    if embedding.positions.kind == "table":
        yield _POSITIONS
    if embedding.positions.kind == "sinusoidal":
        yield _SINUSOIDS
    if embedding.tasks:
        yield _TASKS
    if embedding.widened_first:
        yield replace(_WIDENING, weights=_WIDENING.weights[:1])
    if embedding.norm is not None:
        yield norm_part(5, EMBEDDING, "Normalisation", "Embedding-Norm", embedding.norm, "H" if embedding.widened_first else "E")
    if embedding.widened and not embedding.widened_first:
        yield _WIDENING


def _after_blocks(encoder, heads):
    """The final norm if there is one, and the heads, the pooler once; in the article's order, MLM first."""
    if encoder.final_norm is not None:
        yield norm_part(None, BLOCK, "Final normalisation", "Encoder-Norm", encoder.final_norm)
    used = [encoder.heads[name] for name in encoder.heads if name in heads]
    parts = [part for head in used for part in head.parts if encoder.crf or part is not CRF_PART]
    # A transform that heads share is counted once, with the first of them.
    first_of = {}
    for part in parts:
        first_of.setdefault(part.layer, _head_part(encoder, part))
    parts = list(first_of.values())
    if any(head.pooled for head in used):
        first = sum(part.article is not None and part.article < POOLER_PART.article for part in parts)
        parts.insert(first, POOLER_PART)
    yield from parts


def _head_part(encoder, part):
    """A part of a head with the weights it has in this encoder."""
    dense, norm, vocabulary = (part.layer for part in MLM_PARTS)
    if part.layer == norm:  # same kind as the embedding's norm, unless the MLM head has its own
        return replace(part, weights=norm_weights(encoder.mlm_norm or encoder.embedding.norm, "E"))
    biased = {dense: encoder.transform_bias, vocabulary: encoder.vocabulary_bias}
    if biased.get(part.layer, True):
        return part
    return replace(part, weights=tuple(weight for weight in part.weights if weight.role != "bias"))


def _spelled(encoder, part):
    """A part in the article's letters: H for E if the tables have the hidden size."""
    return part if encoder.embedding.widened else in_letters(part, E="H")
