"""The config of layers, live or in a file: the inverse of `BertConfig.encoder()`."""

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.layers.activations import ACTIVATIONS
from keras_bert_rebuild.models.encoder_blocks import HALVES
from keras_bert_rebuild.models.heads import CRF
from keras_bert_rebuild.pretrained.config_files import check_heads_divide

# Field of the config, the layer that has it ({n} is the number of the first block), the name of the setting there, and the value if
# the layer or setting is missing.
NEEDED = object()
FIELDS = (
    ("vocab_size", "Embedding-Token", "input_dim", NEEDED),
    ("pad_token_id", "Embedding-Token", "pad_id", 0),
    ("max_position_embeddings", "Embedding-Position", "input_dim", NEEDED),
    ("position_offset", "Embedding-Position", "offset", 0),
    ("type_vocab_size", "Embedding-Segment", "input_dim", 0),
    ("num_tasks", "Embedding-Task", "input_dim", 0),
    ("layer_norm_eps", "Embedding-Norm", "epsilon", NEEDED),
    ("hidden_dropout_prob", "Embedding-Dropout", "rate", 0.0),
    ("num_attention_heads", "Encoder-{n}-MultiHeadSelfAttention", "head_num", NEEDED),
    ("attention_act", "Encoder-{n}-MultiHeadSelfAttention", "activation", NEEDED),
    ("attention_probs_dropout_prob", "Encoder-{n}-MultiHeadSelfAttention", "attention_dropout", 0.0),
    ("intermediate_size", "Encoder-{n}-FeedForward", "units", NEEDED),
    ("hidden_act", "Encoder-{n}-FeedForward", "activation", NEEDED),
    ("adapter_size", "Encoder-{n}-FeedForward-Adapter", "units", 0),
)

# Settings of block layers that `BertConfig` has no field for, and their values in BERT.
FIXED = (
    ("use_bias", True),
    ("gated", False),
    ("use_output_bias", None),
    ("rotary_theta", None),
    ("window", None),
    ("head_width", None),
    ("center", True),
)

# Names of keras_bert's two forms of gelu in 0.66 to 0.70.
OLD_ACTIVATIONS = {"gelu_tensorflow": "gelu_erf", "gelu_fallback": "gelu"}


def config_of_layers(encoder):
    """The config of a model assembled by hand; label names are not recovered.

    Args:
        encoder: from `find_encoder`.

    Raises:
        ValueError: a block is incomplete, as in a model that ends within a block, or differs from BERT's.
    """
    layers = {name: vars(layer) for name, layer in encoder.layers.items()}
    numbers = sorted(set(encoder.numbers))
    needed = [f"Encoder-{n}-{half}{end}" for n in numbers for half in HALVES for end in ("", "-Norm")]
    missing = [name for name in ("Embedding-Position", *needed) if name not in layers]
    if missing:
        raise ValueError(f"the model must have a position table and complete encoder blocks; {', '.join(missing)} is missing.")
    if "Embedding-Norm" not in layers or "input_dim" not in layers["Embedding-Position"]:
        raise ValueError("a model without a config must have BERT's layers: a position table and Embedding-Norm.")
    for name in needed:
        for setting, value in FIXED:
            if layers[name].get(setting, value) != value:
                raise ValueError(f"a model without a config must have BERT's layers; {name} has {setting}={layers[name][setting]}.")
    fields = _fields(layers, len(encoder.blocks), numbers[0])
    words = {function: word for word, function in ACTIVATIONS.items()}  # a function without a name stays a function
    acts = {field: words.get(fields[field], fields[field]) for field in ("hidden_act", "attention_act")}
    heads = [encoder.layers[name] for name in ("Classification", "Token-Classification") if name in layers]
    return BertConfig(
        **(fields | acts),
        num_hidden_groups=None if len(numbers) == len(encoder.blocks) else len(numbers),
        labels=tuple(f"LABEL_{i}" for i in range(heads[0].units)) if heads else (),
        crf=CRF in layers,
    )


def config_from_keras_2(model_config, where):
    """The `BertConfig` of a whole model saved by keras_bert.

    Args:
        model_config: the architecture in an .h5 file, as Keras 2 writes it.
        where: the file, for errors.

    Raises:
        ValueError: the layers are not those of keras_bert.
    """
    try:
        layers = {layer["config"]["name"]: layer["config"] for layer in _all_layers(model_config)}
        fields = _fields(layers, sum(name.startswith("Encoder-") and name.endswith("-FeedForward") for name in layers))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where} is not a model of keras_bert: {error} is missing from its layers.") from None
    for field in ("hidden_act", "attention_act"):
        if fields[field] is not None and not isinstance(fields[field], str):
            # A dictionary would let Keras create an arbitrary object.
            raise ValueError(f"{where}: {field} must be the name of an activation; got {fields[field]!r:.80}.")
        fields[field] = OLD_ACTIVATIONS.get(fields[field], fields[field])
    try:
        config = BertConfig(**fields)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None
    return check_heads_divide(config, where)


def _fields(layers, runs, number=1):
    """Fields of the config from layers by name; `runs` blocks, the first of which has the given number."""
    fields = {"num_hidden_layers": runs}
    for field, layer, name, otherwise in FIELDS:
        layer = layer.format(n=number)
        fields[field] = layers[layer][name] if otherwise is NEEDED else layers.get(layer, {}).get(name, otherwise)
    if fields["attention_act"] in ("linear", keras.activations.linear):
        fields["attention_act"] = None
    width = layers["Embedding-Token"]["output_dim"]
    widened = layers.get("Embedding-Mapping")
    return fields | ({"hidden_size": width} if widened is None else {"hidden_size": widened["units"], "embedding_size": width})


def _all_layers(model_config):
    """The layers of a model and of all models nested in it."""
    innermost, waiting = [], [model_config]
    while waiting:
        config = waiting.pop()["config"]
        layers = config if isinstance(config, list) else config["layers"]  # old Sequential models are a list
        for layer in layers:
            inner = layer["config"]
            if isinstance(inner, list) or "layers" in inner:
                waiting.append(layer)
            else:
                innermost.append(layer)
    return innermost
