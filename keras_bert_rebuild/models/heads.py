"""The heads: what stands on the last encoder block."""

import functools
from collections import namedtuple

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.config import HEADS, ON_POOLER
from keras_bert_rebuild.models.encoder import kernel_settings, make_dropout, make_norm

# The layer behind the logits of the head "token_classification" where tags are a chain.
CRF = "Token-Classification-CRF"

# What a head is built from: the config, the sequence `(batch, length, hidden)`, the token table `(vocabulary, embedding)`, the
# input that is not zero where a token is to be predicted, and a function that pools the first token, once for all heads that ask.
Trunk = namedtuple("Trunk", ["config", "sequence", "table", "positions", "pooled"])


def build_mlm(trunk):
    """`MLM`: the probability of every token, `(batch, length, vocabulary)`.

    Reference: Devlin et al., 2019, section 3.1; `get_masked_lm_output` of google-research/bert.
    """
    config = trunk.config
    activation = layers.get_activation(config.hidden_act if config.mlm_act is None else config.mlm_act)
    dense = keras.layers.Dense(config.embedding_width, activation=activation, name="MLM-Dense", **kernel_settings(config))
    x = make_norm(config, "MLM-Norm")(dense(trunk.sequence))
    x = layers.EmbeddingSimilarity(name="MLM-Sim")([x, trunk.table])
    return layers.Masked(name="MLM")([x, trunk.positions])


def build_nsp(trunk):
    """`NSP`: the probabilities that the second sentence is the next one, 0, or a random one, 1: `(batch, 2)`.

    Reference: Devlin et al., 2019, section 3.1; `get_next_sentence_output` of google-research/bert.
    """
    return _last(trunk.config, trunk.pooled(), 2, "NSP", activation="softmax")


def build_sop(trunk):
    """`SOP`: the probabilities that two stretches stand in their order, 0, or are swapped, 1: `(batch, 2)`.

    Reference: Lan et al., 2020, section 3.1 (https://arxiv.org/abs/1909.11942).
    """
    return _last(trunk.config, trunk.pooled(), 2, "SOP", activation="softmax")


def build_classification(trunk):
    """`Classification`: a logit for each label, `(batch, labels)`.

    Reference: Devlin et al., 2019, section 4.1.
    """
    x = _drop(trunk.config, trunk.pooled(), "Classification-Dropout")
    return _last(trunk.config, x, len(trunk.config.labels), "Classification")


def build_token_classification(trunk):
    """`Token-Classification`: a logit for each label at every token, `(batch, length, labels)`.

    With `crf` the layer `Token-Classification-CRF` sets the scores of its transitions below them.

    Reference: Devlin et al., 2019, section 5.3; Lample et al., 2016, section 2.2 (https://arxiv.org/abs/1603.01360).
    """
    x = _drop(trunk.config, trunk.sequence, "Token-Classification-Dropout")
    x = _last(trunk.config, x, len(trunk.config.labels), "Token-Classification")
    return layers.ConditionalRandomField(name=CRF, dtype="float32")(x) if trunk.config.crf else x


def build_question_answering(trunk):
    """`Question-Answering`: logits of being the start and the end of the answer, `(batch, length, 2)`.

    Reference: Devlin et al., 2019, section 4.2.
    """
    return _last(trunk.config, trunk.sequence, 2, "Question-Answering")


def build_multiple_choice(trunk):
    """`Multiple-Choice`: how well a choice goes with its prompt, a logit `(batch, 1)` to compare with those of the other choices.

    Reference: Devlin et al., 2019, section 4.4.
    """
    x = _drop(trunk.config, trunk.pooled(), "Multiple-Choice-Dropout")
    return _last(trunk.config, x, 1, "Multiple-Choice")


# Name of a head in `config.HEADS`, the layer that shows that a model has it.
LAYERS = {
    "pooler": "NSP-Dense",
    "mlm": "MLM",
    "nsp": "NSP",
    "sop": "SOP",
    "classification": "Classification",
    "token_classification": "Token-Classification",
    "question_answering": "Question-Answering",
    "multiple_choice": "Multiple-Choice",
}

# Name of an output, the layers from the last encoder block up to the one that makes its logits; dropout with rate 0 is not there.
BEFORE_LOGITS = {
    "NSP-Dense": ("Extract", "NSP-Dense"),
    "NSP": ("Extract", "NSP-Dense"),
    "SOP": ("Extract", "NSP-Dense"),
    "Classification": ("Extract", "NSP-Dense", "Classification-Dropout"),
    "Token-Classification": ("Token-Classification-Dropout",),
    "Multiple-Choice": ("Extract", "NSP-Dense", "Multiple-Choice-Dropout"),
}

# Name of a head, the function that builds it.
BUILDERS = {
    "pooler": lambda trunk: trunk.pooled(),
    "mlm": build_mlm,
    "nsp": build_nsp,
    "sop": build_sop,
    "classification": build_classification,
    "token_classification": build_token_classification,
    "question_answering": build_question_answering,
    "multiple_choice": build_multiple_choice,
}


def build_heads(config, sequence, table, positions, heads):
    """Connect heads to the last encoder block.

    Args:
        config: a `BertConfig`.
        sequence: `(batch, length, hidden)`.
        table: the token table, which the MLM head shares.
        positions: `Input-Masked`, not zero where a token is to be predicted; None without an MLM head.
        heads: names, keys of `BUILDERS`.

    Returns:
        The outputs of the heads, in their order.
    """

    @functools.cache
    def pooled():
        first = layers.Extract(index=0, name="Extract")(sequence)
        activation = layers.get_activation(config.pooler_act)
        # keras_bert's name; it is BERT's pooler.
        return keras.layers.Dense(config.hidden_size, activation=activation, name="NSP-Dense", **kernel_settings(config))(first)

    trunk = Trunk(config, sequence, table, positions, pooled)
    return [BUILDERS[head](trunk) for head in heads]


def heads_of(model):
    """The heads of a model, in the order of its outputs; the pooler only where no other head stands on it."""
    layers = {layer.name for layer in model.layers}
    return without_implied(head for head in HEADS if LAYERS[head] in layers)


def named_heads_of(model):
    """The keys of the heads of a model in a table of names: those of `heads_of`, and "crf"."""
    return (*heads_of(model), *(["crf"] if any(layer.name == CRF for layer in model.layers) else []))


def without_implied(heads):
    """Heads without the pooler where another head stands on it and brings it along."""
    heads = tuple(heads)
    implied = any(head in ON_POOLER and head != "pooler" for head in heads)
    return tuple(head for head in heads if head != "pooler" or not implied)


def _drop(config, x, name):
    rate = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    return make_dropout(rate, name)(x)


def _last(config, x, units, name, activation="linear"):
    """The last layer of a head, in float32 under any dtype policy: it is small, and in bfloat16 logits near 100 are 0.5 apart."""
    return layers.Dense(units, activation=activation, name=name, dtype="float32", **kernel_settings(config))(x)
