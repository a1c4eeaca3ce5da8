"""The two pretraining heads: masked language model and next sentence."""

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.models.encoder import resolve_activation


def build_pretraining_heads(config, sequence, table, positions):
    """Connect both heads to the last encoder block.

    Args:
        config: a `BertConfig`.
        sequence: `(batch, length, hidden)`.
        table: the token table `(vocabulary, hidden)`, which the MLM head shares.
        positions: `Input-Masked`, not zero where a token is to be predicted.

    Returns:
        `MLM`, probabilities `(batch, length, vocabulary)`, and `NSP`, probabilities `(batch, 2)` of which index 1 is "random".

    Reference: Devlin et al., 2019, section 3.1; `get_masked_lm_output` and `get_next_sentence_output` of google-research/bert.
    """
    x = keras.layers.Dense(config.hidden_size, activation=resolve_activation(config.hidden_act), name="MLM-Dense")(sequence)
    x = layers.LayerNormalization(epsilon=config.layer_norm_eps, name="MLM-Norm")(x)
    first = layers.Extract(index=0, name="Extract")(sequence)
    x = layers.EmbeddingSimilarity(name="MLM-Sim")([x, table])
    pooled = keras.layers.Dense(config.hidden_size, activation="tanh", name="NSP-Dense")(first)
    mlm = layers.Masked(name="MLM")([x, positions])
    nsp = layers.Dense(2, activation="softmax", name="NSP")(pooled)
    return mlm, nsp
