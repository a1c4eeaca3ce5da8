"""Embedding and encoder blocks as a functional graph: what a config becomes."""

import keras

from keras_bert_rebuild import layers
from keras_bert_rebuild.models.encoder_blocks import make_block, run_block


def build_inputs(config, seq_len, padding_mask=False):
    """The inputs of the graph by name, int32: `Input-Token`, and `Input-Segment`, `Input-Task`, `Input-Mask` where there are any.

    Args:
        config: a `BertConfig`.
        seq_len: static length, or None for any.
        padding_mask: whether padding is told by an input of its own (not zero at real tokens) and not by the id of padding.
    """
    names = ["Input-Token"]
    if config.type_vocab_size:
        names.append("Input-Segment")
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
        token table `(vocabulary, embedding)`.
    """
    x, table = _build_embedding(config, inputs)
    blocks = [_make_block(config, i + 1) for i in range(config.num_distinct_blocks)]
    outputs = []
    for layer in range(config.num_hidden_layers):
        x = run_block(blocks[config.block_of_layer(layer)], x)
        outputs.append(x)
    return outputs or [x], table


def initializer(config):
    """A new initializer of kernels and tables as the config has it, or None for that of the layer."""
    spread = config.initializer_range
    return None if spread is None else layers.TruncatedNormal(stddev=spread)


def kernel_settings(config):
    """The arguments that give a layer the initializer of the config."""
    return {} if config.initializer_range is None else {"kernel_initializer": initializer(config)}


def make_norm(config, name):
    """A layer normalisation with the epsilon of the config."""
    return layers.LayerNormalization(epsilon=config.layer_norm_eps, name=name)


def make_dropout(rate, name):
    """A dropout layer, or with rate 0 a function that does nothing and leaves no row in the summary."""
    return layers.Dropout(rate, name=name) if rate > 0 else lambda x: x


def _make_block(config, number):
    return make_block(
        f"Encoder-{number}",
        num_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        attention_act=config.attention_act,
        hidden_act=config.hidden_act,
        dropout_rate=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        adapter_size=config.adapter_size,
        norm_settings={"epsilon": config.layer_norm_eps},
        kernel_settings=lambda: kernel_settings(config),
    )


def _build_embedding(config, inputs):
    tokens = inputs["Input-Token"]
    if "Input-Mask" in inputs:
        tokens = [tokens, inputs["Input-Mask"]]
    x, table = layers.get_embedding(
        [tokens, inputs.get("Input-Segment")],
        token_num=config.vocab_size,
        pos_num=config.max_position_embeddings,
        embed_dim=config.embedding_width,
        segment_num=config.type_vocab_size,
        pad_id=config.pad_token_id,
        position_offset=config.position_offset,
        initializer=None if config.initializer_range is None else lambda: initializer(config),
    )
    if config.num_tasks:
        task = layers.TaskEmbedding(config.num_tasks, config.embedding_width, name="Embedding-Task")
        x = task([x, inputs["Input-Task"]])
    x = make_dropout(config.hidden_dropout_prob, "Embedding-Dropout")(x)  # before the norm, as keras_bert; Google drops after it
    x = make_norm(config, "Embedding-Norm")(x)
    if config.embedding_size is not None:
        x = keras.layers.Dense(config.hidden_size, name="Embedding-Mapping", **kernel_settings(config))(x)
    return x, table
