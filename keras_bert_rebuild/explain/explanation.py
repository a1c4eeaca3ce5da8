"""A model explained step by step, with the formulas of the article, and corrections of errors in articles about BERT."""

from collections.abc import Sequence

import keras

from keras_bert_rebuild.anatomy.part import HEAD
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.accounting import DTYPES, Explanation, account, steps_of
from keras_bert_rebuild.explain.corrections import corrections_of
from keras_bert_rebuild.models.find_encoder import find_encoder, models_in
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_of_layers import config_of_layers


def explain(
    model_or_config: keras.Model | BertConfig,
    heads: Sequence[str] | None = None,
    *,
    batch: int = 1,
    length: int | None = None,
    predictions: int | None = None,
    dtype: str | None = None,
) -> Explanation:
    """Where the parameters and operations of a model are, by the steps and letters of "Understanding BERT architecture".

    Args:
        model_or_config: a `BertConfig`, or any model that contains an encoder of this library. The config of a model without one
            is inferred from its layers. Layers that were added to a model are listed, too.
        heads: for a config, names of heads; None for the pretraining heads `mlm` and `nsp`. A model has its own heads.
        batch: texts per batch, for operations and activations.
        length: tokens per text; None for the maximum length of the model.
        predictions: tokens per text that the MLM head predicts, as with `max_predictions`; None for all.
        dtype: dtype policy for bytes, such as "mixed_bfloat16"; None for that of the model, or float32.

    Returns:
        An `Explanation`, with `steps` and `total("params")`; prints as a table, and a notebook shows Markdown.

    Raises:
        ValueError: the model has no encoder or incomplete blocks, or an argument does not fit.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> explanation = explain(BertConfig(vocab_size=30000))
    >>> explanation.total("params")
    109705010
    >>> step = explanation.steps[5]
    >>> print(step.article, step.name, step.numbers, "=", step.each)
    6 Attention 12·768·64·3 + 3·768 + 768·768 + 768 = 2362368

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805).
    """
    further = ()
    if isinstance(model_or_config, BertConfig):
        config, heads = model_or_config, ("mlm", "nsp") if heads is None else tuple(heads)
    elif isinstance(model_or_config, keras.Model):
        if heads is not None:
            raise ValueError(f"heads must be left out for a model, which has its own; got {heads!r}.")
        config, heads, further = _of_model(model_or_config)
        dtype = _policy(model_or_config) if dtype is None else dtype
    else:
        raise ValueError(f"explain expected a BertConfig or a model; got {type(model_or_config).__name__}.")
    dtype = "float32" if dtype is None else dtype
    steps, letters = account(config, heads, batch, length, predictions, dtype, further)
    return Explanation(config, tuple(heads), letters, dtype, steps, corrections_of(config, heads))


def _of_model(model):
    """The config of a model, its heads, and its other layers with weights: pairs of a name and the number of parameters."""
    encoder = find_encoder(model)
    config = getattr(encoder.host, "config", None) or config_of_layers(encoder)
    # A user's layer may have the name of a head's layer.
    heads = tuple(head for head in heads_of(encoder.host) if _layers_of_head(config, head) <= encoder.layers.keys())
    steps = {
        name.format(n=n) for step, *_ in steps_of(config, heads) for name in step.layer.split(", ") for n in set(encoder.numbers)
    }
    accounted = {encoder.layers[name] for name in steps & encoder.layers.keys()}
    leaves = dict.fromkeys(layer for part in models_in(model) for layer in part.layers if not isinstance(layer, keras.Model))
    further = [(layer.name, layer.count_params()) for layer in leaves if layer not in accounted]
    return config, heads, [(name, count) for name, count in further if count]


def _layers_of_head(config, head):
    return {step.layer for step, *_ in steps_of(config, [head]) if step.section == HEAD}


def _policy(model):
    """The dtype policy of a model, from its first Add layer, which quantisation does not change."""
    layers = find_encoder(model).layers
    name = next(layer for name, layer in layers.items() if name.endswith("-Add")).dtype_policy.name
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, given or of the model; the model has {name!r}.")
    return name
