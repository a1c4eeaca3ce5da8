"""The config of a model that keras_bert saved whole, from its layers."""

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.pretrained.config_files import check_heads_divide

# Field of the config, the layer that has it, what the layer calls it. keras_bert's one gelu is the tanh form.
FIELDS = (
    ("vocab_size", "Embedding-Token", "input_dim"),
    ("hidden_size", "Embedding-Token", "output_dim"),
    ("type_vocab_size", "Embedding-Segment", "input_dim"),
    ("max_position_embeddings", "Embedding-Position", "input_dim"),
    ("layer_norm_eps", "Embedding-Norm", "epsilon"),
    ("num_attention_heads", "Encoder-1-MultiHeadSelfAttention", "head_num"),
    ("attention_act", "Encoder-1-MultiHeadSelfAttention", "activation"),
    ("intermediate_size", "Encoder-1-FeedForward", "units"),
    ("hidden_act", "Encoder-1-FeedForward", "activation"),
)

# What keras_bert called its two forms of gelu in 0.66 to 0.70.
OLD_ACTIVATIONS = {"gelu_tensorflow": "gelu_erf", "gelu_fallback": "gelu"}


def config_from_keras_2(model_config, where):
    """The `BertConfig` of a model.

    Args:
        model_config: the architecture as Keras 2 writes it into an .h5 file.
        where: the file, for errors.

    Raises:
        ValueError: the layers are not those of keras_bert.
    """
    try:
        layers = {layer["config"]["name"]: layer["config"] for layer in _all_layers(model_config)}
        fields = {field: layers[layer][name] for field, layer, name in FIELDS}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where} is not a model of keras_bert: {error} is missing from its layers.") from None
    for field in ("hidden_act", "attention_act"):
        if fields[field] is not None and not isinstance(fields[field], str):
            # Keras would make an object of what its dictionary names.
            raise ValueError(f"{where}: {field} must be the name of an activation; got {fields[field]!r:.80}.")
        fields[field] = OLD_ACTIVATIONS.get(fields[field], fields[field])
    if fields["attention_act"] == "linear":
        fields["attention_act"] = None
    try:
        config = BertConfig(
            **fields,
            num_hidden_layers=sum(name.startswith("Encoder-") and name.endswith("-FeedForward") for name in layers),
            hidden_dropout_prob=layers.get("Embedding-Dropout", {}).get("rate", 0.0),
            attention_probs_dropout_prob=0.0,
            adapter_size=layers.get("Encoder-1-FeedForward-Adapter", {}).get("units", 0),
            num_tasks=layers.get("Embedding-Task", {}).get("input_dim", 0),
        )
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None
    return check_heads_divide(config, where)


def _all_layers(model_config):
    """The layers of a model and of the models that are layers of it, whatever they are nested in."""
    found, waiting = [], [model_config]
    while waiting:
        config = waiting.pop()["config"]
        layers = config if isinstance(config, list) else config["layers"]  # old Sequential models are a list
        for layer in layers:
            inner = layer["config"]
            if isinstance(inner, list) or "layers" in inner:
                waiting.append(layer)
            else:
                found.append(layer)
    return found
