"""Embedding and encoder blocks as a functional graph: what a config becomes."""

import keras

from keras_bert_rebuild import layers


def build_inputs(config, seq_len, padding_mask=False):
    """The inputs of the graph by name, int32: `Input-Token`, `Input-Segment`, `Input-Task` and `Input-Mask` where asked for.

    Args:
        config: a `BertConfig`.
        seq_len: static length, or None for any.
        padding_mask: whether padding is told by an input of its own (not zero at real tokens) and not by id 0.
    """
    names = ["Input-Token", "Input-Segment"]
    if config.num_tasks:
        names.append("Input-Task")
    if padding_mask:
        names.append("Input-Mask")
    return {name: keras.Input((1 if name == "Input-Task" else seq_len,), dtype="int32", name=name) for name in names}


def build_encoder(config, inputs):
    """Connect embedding and encoder blocks.

    Args:
        config: a `BertConfig`.
        inputs: as from `build_inputs`.

    Returns:
        The outputs of the blocks, first to last, each `(batch, length, hidden)` (with no blocks, the embedding alone), and the
        token table `(vocabulary, hidden)`.
    """
    x, table = _build_embedding(config, inputs)
    outputs = []
    for i in range(1, config.num_hidden_layers + 1):
        attention = layers.MultiHeadSelfAttention(
            config.num_attention_heads,
            activation=resolve_activation(config.attention_act),
            attention_dropout=config.attention_probs_dropout_prob,
            name=f"Encoder-{i}-MultiHeadSelfAttention",
        )
        x = _add_and_norm(config, x, attention)
        feed_forward = layers.FeedForward(
            config.intermediate_size,
            activation=resolve_activation(config.hidden_act),
            name=f"Encoder-{i}-FeedForward",
        )
        x = _add_and_norm(config, x, feed_forward)
        outputs.append(x)
    return outputs or [x], table


def resolve_activation(activation):
    """The function for an activation of a config: "gelu" is the tanh form, other names are Keras's."""
    if activation == "gelu":
        return layers.gelu
    return keras.activations.get(activation)


def _build_embedding(config, inputs):
    tokens = inputs["Input-Token"]
    if "Input-Mask" in inputs:
        tokens = [tokens, inputs["Input-Mask"]]
    x, table = layers.get_embedding(
        [tokens, inputs["Input-Segment"]],
        token_num=config.vocab_size,
        pos_num=config.max_position_embeddings,
        embed_dim=config.hidden_size,
        segment_num=config.type_vocab_size,
    )
    if config.num_tasks:
        task = layers.TaskEmbedding(config.num_tasks, config.hidden_size, name="Embedding-Task")
        x = task([x, inputs["Input-Task"]])
    x = _dropout(config, x, "Embedding-Dropout")  # before the norm, as keras_bert; Google drops after it
    return _norm(config, "Embedding-Norm")(x), table


def _add_and_norm(config, x, layer):
    """LayerNorm(x + Dropout(layer(x))): post-LN, Vaswani et al., section 3.1."""
    y = _dropout(config, layer(x), f"{layer.name}-Dropout")
    y = layers.Add(name=f"{layer.name}-Add")([x, y])
    return _norm(config, f"{layer.name}-Norm")(y)


def _dropout(config, x, name):
    rate = config.hidden_dropout_prob
    return keras.layers.Dropout(rate, name=name)(x) if rate > 0 else x


def _norm(config, name):
    return layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name)
