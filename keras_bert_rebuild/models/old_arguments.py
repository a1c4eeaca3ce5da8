"""What replaces the arguments that keras_bert's `get_model` had in older releases, and those that have another name there."""

import difflib

from keras_bert_rebuild.config import BertConfig

# keras_bert's name of a field of the config.
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

COMPILES = "get_model does not compile since keras_bert 0.68: give {name} to compile_model(model, ...)"

# What replaces an argument, as the second half of a sentence.
OLD = {
    "dropout": "it is called dropout_rate",
    "lr": f"{COMPILES.format(name='it')} as learning_rate",
    "learning_rate": COMPILES.format(name="it"),
    "weight_decay": COMPILES.format(name="it"),
    "weight_decay_pattern": COMPILES.format(name="it"),
    "decay_steps": COMPILES.format(name="it"),
    "warmup_steps": COMPILES.format(name="it"),
    "custom_layers": "call the layers, which replaced the encoder, on the first of the two tensors of "
    "get_embedding(get_inputs(seq_len), ...), or after the encoder on the output of get_model(..., training=False)",
}


def check_arguments(names, arguments):
    """Refuse unknown arguments of `get_model`, and name the one to use instead.

    Args:
        names: of the arguments that are not in the signature; fields of `BertConfig` are allowed.
        arguments: names in the signature.

    Raises:
        ValueError: one of them is unknown.
    """
    for name in names:
        if name in FIELDS:
            raise ValueError(f"get_model takes keras_bert's names of the sizes; got {name}: it is called {FIELDS[name]}.")
        if name in OLD:
            raise ValueError(f"get_model has no argument {name}: {OLD[name]}.")
        known = [*arguments, *BertConfig.__dataclass_fields__]
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ValueError(f"get_model has no argument {name}" + (f": did you mean {near[0]}?" if near else "."))
