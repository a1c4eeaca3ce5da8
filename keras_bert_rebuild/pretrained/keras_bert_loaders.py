"""keras_bert's loaders of Google's checkpoints."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy.typing as npt

from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint
from keras_bert_rebuild.checkpoints.transfer import load_variables
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.get_model import get_model
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import config_from_google, read_json


def checkpoint_loader(checkpoint_file: str | os.PathLike[str]) -> Callable[[str], npt.NDArray[Any]]:
    """A function from the name of a variable in a TensorFlow checkpoint to its array."""
    return TensorFlowCheckpoint(checkpoint_file).read


def build_model_from_config(
    config_file: str | os.PathLike[str],
    training: bool = False,
    trainable: bool | Sequence[str] | None = None,
    output_layer_num: int | Sequence[int] = 1,
    seq_len: int | None = int(1e9),
    **kwargs: Any,
) -> tuple[BertModel, dict[str, Any]]:
    """Build the model of a `bert_config.json`, without weights.

    Args:
        config_file: path of the file.
        training: whether to add the MLM and NSP heads.
        trainable: see `get_model`; None means `training`.
        output_layer_num: see `get_model`.
        seq_len: static length, at most the maximum length of the config, to which the position table is cut. None for any length,
            with all positions.
        **kwargs: other arguments of `get_model`, such as `dropout_rate`, which by default comes from the config.

    Returns:
        The model and the config as a dictionary.
    """
    config = read_json(config_file, "a bert_config.json")
    fields = config_from_google(config, config_file)
    if seq_len is not None:
        seq_len = config["max_position_embeddings"] = min(seq_len, fields.max_position_embeddings)
    kwargs.setdefault("dropout_rate", fields.hidden_dropout_prob)
    kwargs.setdefault("attention_probs_dropout_prob", fields.attention_probs_dropout_prob)
    kwargs.setdefault("initializer_range", fields.initializer_range)
    built = get_model(
        token_num=fields.vocab_size,
        pos_num=config["max_position_embeddings"],
        seq_len=seq_len,
        embed_dim=fields.hidden_size,
        transformer_num=fields.num_hidden_layers,
        head_num=fields.num_attention_heads,
        feed_forward_dim=fields.intermediate_size,
        feed_forward_activation=fields.hidden_act,
        training=training,
        trainable=trainable,
        output_layer_num=output_layer_num,
        type_vocab_size=fields.type_vocab_size,
        **kwargs,
    )
    return (built if training else BertModel(*built)), config


def load_model_weights_from_checkpoint(
    model: keras.Model, config: Mapping[str, Any], checkpoint_file: str | os.PathLike[str], training: bool = False
) -> None:
    """Load the weights of a checkpoint into a model, in place.

    Blocks that the model lacks are skipped, and so are heads without `training`. Layers that no checkpoint has keep their values: a
    task embedding, and any other layer inside or on top of the model, which may itself be a layer of another model.

    Args:
        model: from `build_model_from_config`.
        config: the dictionary returned with it.
        checkpoint_file: prefix of the checkpoint, such as `bert_model.ckpt`.
        training: load the heads, too.

    Raises:
        ValueError: the model has no token embedding; or lists all missing names and all shapes that do not match.
    """
    checkpoint = TensorFlowCheckpoint(checkpoint_file)
    rows = bert.GOOGLE.rows(config["num_hidden_layers"], heads_of(model))
    heads = {path for rows_of_head in bert.GOOGLE.heads.values() for path, *_ in rows_of_head}
    variables = [v for v in model.weights if training or v.path not in heads]
    loaded_paths = {row.path for row in rows}
    if "Embedding-Token/embeddings" not in {v.path for v in variables}:
        raise ValueError(f"the model must have layers of get_model, such as Embedding-Token; it has {_some_names(model)}.")
    not_in_checkpoint = [v.path for v in model.weights if v.path not in loaded_paths]
    # Other weights of the checkpoint are skipped, as in keras_bert: a truncated model only takes the blocks it has.
    load_variables(variables, checkpoint, bert.GOOGLE, rows, optional=not_in_checkpoint, leftovers=True)


def load_trained_model_from_checkpoint(
    config_file: str | os.PathLike[str],
    checkpoint_file: str | os.PathLike[str],
    training: bool = False,
    trainable: bool | Sequence[str] | None = None,
    output_layer_num: int | Sequence[int] = 1,
    seq_len: int | None = int(1e9),
    **kwargs: Any,
) -> BertModel:
    """Build the model of a checkpoint and load it: see `build_model_from_config` and `load_model_weights_from_checkpoint`."""
    model, config = build_model_from_config(
        config_file, training=training, trainable=trainable, output_layer_num=output_layer_num, seq_len=seq_len, **kwargs
    )
    load_model_weights_from_checkpoint(model, config, checkpoint_file, training=training)
    return model


def _some_names(model):
    names = [layer.name for layer in model.layers]
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "none"
