"""An encoder with the head of a task, whose weights are the same on every backend."""

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.backend_values import unwritten
from keras_bert_rebuild.checkpoints.report import LoadReport
from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.layers.drawn_by_name import drawn_by_name
from keras_bert_rebuild.layers.truncated_normal import skipped_initialization
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.dtype_scope import dtype_scope
from keras_bert_rebuild.models.heads import CRF, LAYERS
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.training.lora import without_lora

# What may be begun anew: the last layers of the heads, and the pooler where the encoder came without one.
_OF_HEADS = tuple(f"{layer}/" for layer in (*LAYERS.values(), CRF))
_POOLER = f"{LAYERS['pooler']}/"


def model_with_head(encoder, heads, labels=(), *, seed=0, dtype=None, **rates):
    """A new model of an encoder and a head that has not learned anything.

    Args:
        encoder: the path of a checkpoint, as for `from_pretrained`, or a loaded or trained model, which stays as it is; low-rank
            matrices that it has are added to the kernels of the new one.
        heads: names of heads, as for `build_model`; their last layers begin anew even where the encoder brings some.
        labels: names of the outputs of a classification head.
        seed: what is begun anew is drawn from it, the same numbers on every backend.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
        **rates: fields of `BertConfig` to change: `hidden_dropout_prob`, `attention_probs_dropout_prob`, `classifier_dropout`; and
            `crf`.

    Returns:
        A `BertModel`; its `load_report` lists in `missing` what was begun anew.

    Raises:
        ValueError: a model without a config, of other layers than its config says, or quantised.
    """
    source = encoder if isinstance(encoder, keras.Model) else from_pretrained(encoder)
    config = getattr(source, "config", None)
    if config is None:
        raise ValueError(f"expected the path of a checkpoint or a model with a config; got {type(encoder).__name__} without one.")
    source = without_lora(source)
    told = {"labels": tuple(labels), "problem_type": None, "crf": False, **rates}
    with dtype_scope(dtype), skipped_initialization(unwritten):
        model = build_model(config.replace(**told), heads)
    values = {variable.path: variable for variable in source.weights}
    last = tuple(f"{layer}/" for layer in (*(LAYERS[head] for head in heads if head != "pooler"), CRF))
    report = LoadReport(source=getattr(getattr(source, "load_report", None), "source", "a model of this process"))
    for variable in model.weights:
        known = values.get(variable.path)
        if known is not None and not variable.path.startswith(last):
            if "int" in str(known.dtype):
                raise ValueError(f"the encoder must have weights that are not quantised; {variable.path} is of type {known.dtype}.")
            variable.assign(to_numpy(known).astype("float32"))
            report.loaded.append((variable.path, variable.path, tuple(variable.shape)))
        elif variable.path.startswith(_OF_HEADS):
            variable.assign(_drawn(variable, config.initializer_range or 0.02, seed))
            report.missing.append((variable.path, "newly initialised"))
        else:
            raise ValueError(f"the encoder must have the weights that its config declares; {variable.path} is missing.")
    report.tokenizer_files = getattr(getattr(source, "load_report", None), "tokenizer_files", {})
    model.load_report = report
    return model


def _drawn(variable, spread, seed):
    """A kernel from the normal distribution; anything else is 0.

    The last layer of a head has the deviation 1/√width, by which logits are of the size of what they are made of at any width; a
    pooler has `spread`, that of BERT. After few steps that was as good as `spread` for the head, too, which transformers has, on
    two sets and better on one: benchmarks/RESULTS.md, "The first weights of a head".
    """
    if not variable.path.endswith("kernel"):
        return np.zeros(variable.shape, "float32")
    if not variable.path.startswith(_POOLER):
        spread = variable.shape[0] ** -0.5
    return drawn_by_name(variable, seed, lambda generator, shape: generator.standard_normal(shape) * spread)
