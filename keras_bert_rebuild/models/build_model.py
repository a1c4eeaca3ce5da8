"""Build a model from a config: encoder, heads, the matching model class, and the dtype policy of its layers."""

import contextlib
import operator
from collections.abc import Sequence
from dataclasses import replace

import keras

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.anatomy.heads import POOLED
from keras_bert_rebuild.config import HEADS, BertConfig, check_heads
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.encoder import build_encoder, build_inputs
from keras_bert_rebuild.models.heads import build_heads
from keras_bert_rebuild.models.pretraining_model import PretrainingModel

# The heads that packed rows can have: those with an output per token, and those on pairs, with one per sequence.
OF_PACKED = ("mlm", "rtd", "nsp", "sop")


def build_model(
    config: BertConfig,
    heads: Sequence[str] = (),
    *,
    seq_len: int | None = None,
    output_layer_num: int | Sequence[int] = 1,
    trainable: bool | Sequence[str] = True,
    padding_mask: bool = False,
    embedding_of: keras.Model | None = None,
    query_trained: bool = False,
    packed: bool = False,
) -> BertModel:
    """Build the graph of a config, with random weights.

    Args:
        config: a `BertConfig`.
        heads: names of heads, a selection of `config.HEADS`; empty for the encoder alone.
        seq_len: static length of the inputs, or None for any.
        output_layer_num: without heads, the number of last blocks to concatenate, first to last; or a list of block indexes, 0 for
            the first, -1 for the last, concatenated in reversed order (as in keras_bert).
        trainable: True or False for all layers, or a list of name prefixes of the layers to train.
        padding_mask: add a last input `Input-Mask`, nonzero at real tokens, instead of recognising padding by its id.
        embedding_of: a model with the same encoder inputs and an equal embedding, whose tables and norm are then shared, but not
            the projection to the width of the blocks; None for a new embedding.
        query_trained: train the vector of XLNet's query stream, for a model that runs it.
        packed: rows hold several sequences that do not attend to each other: `Input-Mask` is then 1 + the column in which the
            sequence of a token begins, and 0 at padding. Positions begin at 0 in every sequence. Only for the heads of pretraining;
            "nsp" and "sop" have an output per sequence then, `(batch, most_sequences(length), 2)`: see `ExtractFirsts`.

    Returns:
        A `BertModel`; with an MLM head a `PretrainingModel`, which has a further input `Input-Masked`. The outputs are those of the
        heads, in the order of `config.HEADS`; with the pooler also the sequence, before it. Without heads the output is the
        sequence `(batch, length, hidden · number of blocks)`.

    Raises:
        IndexError: `num_attention_heads` does not divide `hidden_size`; or without heads, there are no blocks, or
            `output_layer_num` is below 1.
        ValueError: a length exceeds the positions, an activation or head is unknown, or a block does not exist; or with `packed`, a
            head is not one of pretraining or does not read the first token, or blocks mix neighbouring tokens whatever the mask.
    """
    check_heads(heads)
    if seq_len is not None and seq_len > config.max_length:
        raise ValueError(f"seq_len must be at most {config.max_length}, the rows of the position table; got {seq_len}.")
    heads = [head for head in HEADS if head in heads]
    if heads and output_layer_num != 1:
        raise ValueError(f"output_layer_num must be left out with heads; got {output_layer_num} and {', '.join(heads)}.")
    encoder = config.encoder()
    padding_mask = padding_mask or packed
    if packed:
        _check_packed(encoder, heads)
    if query_trained:
        encoder = replace(encoder, embedding=replace(encoder.embedding, query_trained=True))
    inputs = build_inputs(encoder, seq_len, padding_mask)
    blocks, table = build_encoder(encoder, inputs, embedding_of, packed)
    if heads:
        positions = keras.Input((seq_len,), dtype="int32", name="Input-Masked") if "mlm" in heads else None
        outputs = build_heads(encoder, blocks[-1], table, positions, heads, packed)
        if "pooler" in heads:
            outputs = [blocks[-1], *outputs]
        if positions is not None:
            mask = [inputs.pop("Input-Mask")] if padding_mask else []
            inputs = {**inputs, "Input-Masked": positions, **{tensor.name: tensor for tensor in mask}}
    else:
        outputs = [_concatenated(blocks, output_layer_num, config.num_hidden_layers)]
    model_class = PretrainingModel if "mlm" in heads else BertModel
    model = model_class(bare_if_one(list(inputs.values())), bare_if_one(outputs))
    model.config = config
    set_trainable(model.layers, trainable)
    return model


def _check_packed(encoder, heads):
    """Refuse heads and blocks that would mix the sequences of a row."""
    unpacked = [head for head in heads if head not in OF_PACKED]
    if unpacked:
        raise ValueError(f"packed rows must have the heads of pretraining, {', '.join(OF_PACKED)}; got {', '.join(unpacked)}.")
    for head in heads:
        first = encoder.heads[head].reads[:1]
        if encoder.heads[head].is_per_text and first != POOLED[:1]:
            raise ValueError(f"packed rows must have heads on the first token of a sequence; {head} reads {first[0]}.")
    if any(block.convolution is not None for block in encoder.blocks):
        raise ValueError("packed rows must have blocks without convolution, which would mix tokens of neighbouring sequences.")


def select_blocks(output_layer_num, num_blocks):
    """Indexes of the blocks that `output_layer_num` selects, in the order of concatenation."""
    if hasattr(output_layer_num, "__index__"):
        count = operator.index(output_layer_num)
        if count < 1:
            raise IndexError(f"output_layer_num must be at least 1 or a list of block indexes; got {count}.")
        return list(range(max(num_blocks - count, 0), num_blocks))
    indexes = [operator.index(i) for i in output_layer_num]
    wrong = [i for i in indexes if not -num_blocks <= i < num_blocks]
    if wrong or not indexes:
        raise ValueError(
            f"output_layer_num must have blocks from {-num_blocks} to {num_blocks - 1}, as there are {num_blocks}; got {indexes}."
        )
    return [i % num_blocks for i in reversed(indexes)]


def set_trainable(layers, trainable):
    """Set all layers trainable or not, or only those trainable whose name starts with one of the prefixes."""
    if isinstance(trainable, str):
        raise ValueError(f"trainable must be True, False or a list of layer name prefixes; got the string {trainable!r}.")
    prefixes = None if isinstance(trainable, bool) else tuple(trainable)
    for layer in layers:
        layer.trainable = trainable if prefixes is None else layer.name.startswith(prefixes)


def _concatenated(blocks, output_layer_num, num_blocks):
    if num_blocks < 1:
        raise IndexError(f"a model without heads must have at least 1 encoder block; got {num_blocks}.")
    outputs = [blocks[i] for i in select_blocks(output_layer_num, num_blocks)]
    return outputs[0] if len(outputs) == 1 else keras.layers.Concatenate(name="Encoder-Output")(outputs)


@contextlib.contextmanager
def dtype_scope(dtype):
    """Make `dtype` the global dtype policy within the context.

    Args:
        dtype: a dtype policy, such as "mixed_bfloat16"; None leaves the current one.
    """
    before = keras.config.dtype_policy()
    if dtype is not None:
        keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
