"""keras_bert's loaders of Google's checkpoints."""

import json
from pathlib import Path

from keras_bert_rebuild.checkpoints.table import expand_table
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint
from keras_bert_rebuild.checkpoints.transfer import load_variables
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.get_model import get_model

# Fields that a `bert_config.json` must have for the graph to be built.
REQUIRED = (
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
)


def checkpoint_loader(checkpoint_file):
    """A function from the name of a variable in a TensorFlow checkpoint to its array."""
    return TensorFlowCheckpoint(checkpoint_file).read


def build_model_from_config(config_file, training=False, trainable=None, output_layer_num=1, seq_len=int(1e9), **kwargs):
    """Build the model of a `bert_config.json`, without weights.

    Args:
        config_file: path of the file.
        training: with the MLM and NSP heads.
        trainable: as for `get_model`; None means `training`.
        output_layer_num: as for `get_model`.
        seq_len: static length, cut to the positions of the config; positions behind it are left out. None for any length, with all
            positions.
        **kwargs: further arguments of `get_model`, such as `dropout_rate`, which comes from the config otherwise.

    Returns:
        The model and the config as a dictionary.
    """
    config = _read_config(config_file)
    if seq_len is not None:
        seq_len = config["max_position_embeddings"] = min(seq_len, config["max_position_embeddings"])
    kwargs.setdefault("dropout_rate", config.get("hidden_dropout_prob", 0.1))
    built = get_model(
        token_num=config["vocab_size"],
        pos_num=config["max_position_embeddings"],
        seq_len=seq_len,
        embed_dim=config["hidden_size"],
        transformer_num=config["num_hidden_layers"],
        head_num=config["num_attention_heads"],
        feed_forward_dim=config["intermediate_size"],
        feed_forward_activation=config["hidden_act"],
        training=training,
        trainable=trainable,
        output_layer_num=output_layer_num,
        type_vocab_size=config.get("type_vocab_size", 2),
        **kwargs,
    )
    return (built if training else BertModel(*built)), config


def load_model_weights_from_checkpoint(model, config, checkpoint_file, training=False):
    """Fill a model with the weights of a checkpoint, in place.

    Blocks that the model has not are left out, and so are the heads without `training`. A task embedding, which no checkpoint has,
    keeps its values.

    Args:
        model: as from `build_model_from_config`.
        config: the dictionary that came with it.
        checkpoint_file: prefix of the checkpoint, such as `bert_model.ckpt`.
        training: fill the heads too.

    Raises:
        ValueError: lists at once every name that is missing and every shape that does not fit.
    """
    checkpoint = TensorFlowCheckpoint(checkpoint_file)
    rows = expand_table(bert.GOOGLE_EMBEDDINGS, bert.GOOGLE_BLOCK, bert.GOOGLE_HEADS, config["num_hidden_layers"])
    heads = {path for path, _, _ in bert.GOOGLE_HEADS}
    variables = [
        variable
        for variable in model.weights
        if not variable.path.startswith("Embedding-Task/")
        if training or variable.path not in heads
    ]
    load_variables(variables, rows, checkpoint.names, checkpoint.read)


def load_trained_model_from_checkpoint(
    config_file, checkpoint_file, training=False, trainable=None, output_layer_num=1, seq_len=int(1e9), **kwargs
):
    """Build and fill the model of a checkpoint: see `build_model_from_config` and `load_model_weights_from_checkpoint`."""
    model, config = build_model_from_config(
        config_file, training=training, trainable=trainable, output_layer_num=output_layer_num, seq_len=seq_len, **kwargs
    )
    load_model_weights_from_checkpoint(model, config, checkpoint_file, training=training)
    return model


def _read_config(config_file):
    path = Path(config_file)
    if not path.is_file():
        raise ValueError(f"expected a bert_config.json at {path}; there is no such file.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} must be JSON in UTF-8: {error}.") from None
    missing = [name for name in REQUIRED if name not in config]
    if missing:
        raise ValueError(f"{path} must have {', '.join(REQUIRED)}; {', '.join(missing)} is missing.")
    return config
