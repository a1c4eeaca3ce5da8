"""The heads: the layers on top of the last encoder block, built from `anatomy.heads`."""

import functools
from collections import namedtuple

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.heads import CRF, FIRST_TOKEN, HEADS, LAST, MEAN, POOLER
from keras_bert_rebuild.models.encoder import make_dropout, make_kernel_settings, make_norm

# The inputs of a head: the `anatomy.Encoder`, the token table `(vocabulary, embedding)`, the input that is nonzero at tokens to
# predict, and a function from names of layers to the sequence after them, which creates each layer once for all heads.
HeadInputs = namedtuple("HeadInputs", ["encoder", "table", "positions", "read"])


def build_mlm(inputs, head):
    """`MLM`: the probability of every token, `(batch, length, vocabulary)`.

    Reference: Devlin et al., 2019, section 3.1; `get_masked_lm_output` of google-research/bert.
    """
    settings = {} if inputs.encoder.vocabulary_bias else {"use_bias": False}
    x = layers.EmbeddingSimilarity(name="MLM-Sim", **settings)([inputs.read(head.reads), inputs.table])
    return layers.Masked(name="MLM")([x, inputs.positions])


def build_last(inputs, head):
    """Build a head: its intermediate layers, its last layer, and the conditional random field after it if there is one.

    The last layer is in float32 under any dtype policy: it is small, and in bfloat16 logits near 100 are 0.5 apart.

    `NSP`, `(batch, 2)`: the probabilities that the second segment is the next one, 0, or a random one, 1. Devlin et al., 2019,
    section 3.1; `get_next_sentence_output` of google-research/bert.
    `SOP`, `(batch, 2)`: the probabilities that two spans of text are in order, 0, or swapped, 1. Lan et al., 2020, section 3.1
    (https://arxiv.org/abs/1909.11942).
    `Classification`, `(batch, labels)`: a logit for each label. Devlin et al., 2019, section 4.1.
    `Token-Classification`, `(batch, length, labels)`: a logit for each label at every token; with `crf` the layer
    `Token-Classification-CRF` appends the scores of its transitions. Section 5.3; Lample et al., 2016, section 2.2
    (https://arxiv.org/abs/1603.01360).
    `Question-Answering`, `(batch, length, 2)`: logits of the start and the end of the answer. Section 4.2.
    `Multiple-Choice`, `(batch, 1)`: a logit for a choice, to compare with those of the other choices. Section 4.4.
    `RTD`, `(batch, length, 1)`: a logit for each token, above 0 if it was replaced. Clark et al., 2020, section 2
    (https://arxiv.org/abs/2003.10555).
    """
    encoder = inputs.encoder
    x = inputs.read(head.reads)
    units = encoder.labels if head.units == "C" else int(head.units)
    activation = "softmax" if head.softmax else "linear"
    settings = make_kernel_settings(encoder.initializer_range)
    x = layers.Dense(units, activation=activation, name=head.layer, dtype="float32", **settings)(x)
    chain = encoder.crf and any(part.layer == CRF for part in head.parts)
    return layers.ConditionalRandomField(name=CRF, dtype="float32")(x) if chain else x


# For every head in `config.HEADS`, the layer whose presence shows that a model has it.
LAYERS = {name: head.layer for name, head in HEADS.items()}


def before_logits(encoder):
    """By name of an output, the layers between the last block and its logits; dropout layers are missing for a rate of 0."""
    return {head.layer: head.reads for head in encoder.heads.values() if head.reads}


def build_heads(encoder, sequence, table, positions, heads, packed=False):
    """Connect heads to the last encoder block.

    Args:
        encoder: an `anatomy.Encoder`.
        sequence: `(batch, length, hidden)`.
        table: the token table, which the MLM head shares.
        positions: `Input-Masked`, nonzero at tokens to predict; None without an MLM head.
        heads: names of heads, keys of `encoder.heads`.
        packed: whether a row holds several sequences, each with its own first token.

    Returns:
        The outputs of the heads, in their order.
    """

    layer = functools.cache(functools.partial(_make_layer, encoder, packed))

    @functools.cache
    def read(names):
        return layer(names[-1])(read(names[:-1])) if names else sequence

    inputs = HeadInputs(encoder, table, positions, read)
    return [_build(inputs, name) for name in heads]


def _make_layer(encoder, packed, name):
    """A layer between the last encoder block and the last layers of heads."""
    if name.endswith("-Dropout"):
        return make_dropout(encoder.head_dropout, name)
    if name == "Extract":
        return layers.ExtractFirsts(name=name) if packed else layers.Extract(index=0, name=name)
    if name == LAST:
        return layers.Extract(index=-1, skip_padding=True, name=name)
    if name == FIRST_TOKEN:
        return layers.Extract(index=0, skip_padding=True, name=name)
    if name == MEAN:
        return keras.layers.GlobalAveragePooling1D(name=name)
    if name == "MLM-Norm":
        return make_norm(encoder.mlm_norm or encoder.embedding.norm, name)
    settings = make_kernel_settings(encoder.initializer_range)
    if name == POOLER:  # keras_bert's name; it is BERT's pooler.
        return keras.layers.Dense(encoder.width, activation=layers.get_activation(encoder.pooler_activation), name=name, **settings)
    if name == "RTD-Dense":
        return keras.layers.Dense(encoder.width, activation=layers.get_activation(encoder.rtd_activation), name=name, **settings)
    if encoder.output_range is not None:
        settings = make_kernel_settings(encoder.output_range)
    if not encoder.transform_bias:
        settings["use_bias"] = False
    activation = layers.get_activation(encoder.mlm_activation)
    return keras.layers.Dense(encoder.embedding.width, activation=activation, name=name, **settings)


def _build(inputs, name):
    head = inputs.encoder.heads[name]
    if head.layer == POOLER:
        return inputs.read(head.reads)
    return build_mlm(inputs, head) if name == "mlm" else build_last(inputs, head)


def heads_of(model):
    """The heads of a model in the order of its outputs; the pooler only if no other head uses it."""
    present = {layer.name for layer in model.layers}
    return without_implied(name for name, head in HEADS.items() if head.layer in present)


def named_heads_of(model):
    """The keys of a model's heads in a name table: those of `heads_of`, and "crf"."""
    return (*heads_of(model), *(["crf"] if any(layer.name == CRF for layer in model.layers) else []))


def without_implied(heads):
    """Heads without the pooler if another head uses it, which implies it."""
    heads = tuple(heads)
    implied = any(HEADS[head].pooled and head != "pooler" for head in heads)
    return tuple(head for head in heads if head != "pooler" or not implied)
