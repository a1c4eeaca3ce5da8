"""keras_bert's `get_model`: translates its argument names to a `BertConfig`; older names raise errors that name the new one."""

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model

# keras_bert's names of fields of the config.
FIELDS = {
    "vocab_size": "token_num",
    "max_position_embeddings": "pos_num",
    "hidden_size": "embed_dim",
    "num_hidden_layers": "transformer_num",
    "num_attention_heads": "head_num",
    "intermediate_size": "feed_forward_dim",
    "hidden_dropout_prob": "dropout_rate",
    "attention_act": "attention_activation",
    "hidden_act": "feed_forward_activation",
    "num_tasks": "task_num and use_task_embed",
    "adapter_size": "adapter_units and use_adapter",
}

COMPILES = "get_model has not compiled since keras_bert 0.68: pass {name} to compile_model(model, ...)"

# The replacement of an argument, as the second half of a sentence.
OLD = {
    "dropout": "it is called dropout_rate",
    "lr": f"{COMPILES.format(name='it')} as learning_rate",
    "learning_rate": COMPILES.format(name="it"),
    "weight_decay": COMPILES.format(name="it"),
    "weight_decay_pattern": COMPILES.format(name="it"),
    "decay_steps": COMPILES.format(name="it"),
    "warmup_steps": COMPILES.format(name="it"),
    "custom_layers": "call the layers that replaced the encoder on the first of the two tensors of "
    "get_embedding(get_inputs(seq_len), ...), or after the encoder on the output of get_model(..., training=False)",
}


def check_arguments(names, arguments):
    """Refuse unknown arguments of `get_model`, and name the one to use instead.

    Args:
        names: names of arguments that are not in the signature; fields of `BertConfig` are allowed.
        arguments: the names in the signature.

    Raises:
        ValueError: a name is unknown.
    """
    for name in names:
        if name in FIELDS:
            raise ValueError(f"get_model must get sizes by keras_bert's names; got {name}, which is called {FIELDS[name]}.")
        if name in OLD:
            raise ValueError(f"get_model has no argument {name}: {OLD[name]}.")
        allowed = [*arguments, *BertConfig.__dataclass_fields__]
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            raise ValueError(f"get_model has no argument {name}" + (f": did you mean {near[0]}?" if near else "."))


def get_model(
    token_num: int,
    pos_num: int = 512,
    seq_len: int | None = 512,
    embed_dim: int = 768,
    transformer_num: int = 12,
    head_num: int = 12,
    feed_forward_dim: int = 3072,
    dropout_rate: float = 0.1,
    attention_activation: str | Callable[[Any], Any] | None = None,
    feed_forward_activation: str | Callable[[Any], Any] = "gelu",
    training: bool = True,
    trainable: bool | Sequence[str] | None = None,
    output_layer_num: int | Sequence[int] = 1,
    use_task_embed: bool = False,
    task_num: int = 10,
    use_adapter: bool = False,
    adapter_units: int | None = None,
    *,
    padding_mask: bool = False,
    **config: Any,
) -> BertModel | Any:
    """Build BERT as a functional graph, one row of the summary for every step.

    Args:
        token_num: size of the vocabulary.
        pos_num: rows of the position table, the maximum sequence length.
        seq_len: static length of the inputs, at most `pos_num`; None for any length.
        embed_dim: hidden size.
        transformer_num: number of encoder blocks.
        head_num: attention heads per block; must divide `embed_dim`.
        feed_forward_dim: intermediate size of the feed-forward networks.
        dropout_rate: in [0, 1); 0 leaves the dropout layers out.
        attention_activation: activation of queries, keys, values and the attention output; None in BERT.
        feed_forward_activation: activation of the feed-forward networks and the MLM head; "gelu" is the tanh form.
        training: build the MLM and NSP heads.
        trainable: True or False for all layers, or a list of name prefixes of the layers to train; None means `training`.
        output_layer_num: without heads, the number of last blocks to concatenate, first to last; or a list of block indexes, 0 for
            the first, -1 for the last, concatenated in reversed order (as in keras_bert).
        use_task_embed: add a task embedding, with a further input.
        task_num: number of tasks.
        use_adapter: add an adapter, a small trainable network, to either half of an encoder block, before the sum. `trainable`
            selects the layers to train, with prefixes such as "Encoder-1-FeedForward-Adapter" and "Encoder-1-FeedForward-Norm".
        adapter_units: width inside the adapters; None for a hundredth of `embed_dim`, at least 1.
        padding_mask: add a last input `Input-Mask`, nonzero at real tokens, instead of treating token id 0 as padding.
        **config: further fields of `BertConfig`, such as `type_vocab_size` or `attention_probs_dropout_prob`.

    Returns:
        With `training` an uncompiled model: inputs `Input-Token`, `Input-Segment`, (`Input-Task`,) `Input-Masked`(, `Input-Mask`);
        outputs `MLM`, probabilities `(batch, length, token_num)`, and `NSP`, probabilities `(batch, 2)`.
        Without it, a tuple of the list of inputs and the output `(batch, length, embed_dim · number of blocks)`.

    Raises:
        IndexError: `head_num` does not divide `embed_dim`; or without `training`, there are no blocks, or `output_layer_num` is
            below 1.
        ValueError: a length exceeds `pos_num`, an activation is unknown, a block does not exist, `adapter_units` is below 1, or an
            argument is unknown or was removed from keras_bert; the error names its replacement.

    Reference: Houlsby et al., 2019 (https://arxiv.org/abs/1902.00751), for adapters, as keras_bert had them from 0.69 to 0.81.
    """
    check_arguments(config, ARGUMENTS)
    # As keras_bert: no dropout of attention probabilities, and the initializers of the layers.
    config = {"attention_probs_dropout_prob": 0.0, "initializer_range": None, **config}
    bert_config = BertConfig(
        vocab_size=token_num,
        max_position_embeddings=pos_num,
        hidden_size=embed_dim,
        num_hidden_layers=transformer_num,
        num_attention_heads=head_num,
        intermediate_size=feed_forward_dim,
        hidden_dropout_prob=max(dropout_rate, 0.0),  # as in keras_bert, where a negative rate means no dropout
        attention_act=attention_activation,
        hidden_act=feed_forward_activation,
        num_tasks=task_num if use_task_embed else 0,
        adapter_size=_adapter_size(adapter_units, embed_dim) if use_adapter else 0,
        **config,
    )
    model = build_model(
        bert_config,
        ("mlm", "nsp") if training else (),
        seq_len=seq_len,
        output_layer_num=1 if training else output_layer_num,
        trainable=training if trainable is None else trainable,
        padding_mask=padding_mask,
    )
    return model if training else (model.inputs, model.outputs[0])


def _adapter_size(units, hidden_size):
    if units is None:
        return max(1, hidden_size // 100)
    if not units >= 1:
        raise ValueError(f"adapter_units must be at least 1, or None for a hundredth of embed_dim; got {units!r}.")
    return units


# In the signature, without `config`.
ARGUMENTS = tuple(inspect.signature(get_model).parameters)[:-1]


def get_token_embedding(model: keras.Model) -> Any:
    """The token table of a model as a symbolic tensor `(vocabulary, hidden)`: the second output of `Embedding-Token`.

    Raises:
        ValueError: the model has no layer of that name.
    """
    return model.get_layer("Embedding-Token").output[1]
