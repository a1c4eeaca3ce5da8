"""A tiny config of every family, and what the table in docs/checkpoints.md says of each; `families_page.py` writes the table."""

import contextlib

import pytest

from helpers.small_tasks import VOCABULARY
from keras_bert_rebuild.config import HEADS
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.families import FAMILIES, WITHOUT_FILES
from keras_bert_rebuild.families.xlnet import XLNetConfig

SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "labels": ("cat", "dog"),
}
# For configs that have these fields with a value.
SMALLER = {"embedding_size": 8, "local_attention": 4, "position_buckets": 8}

# What can be done with a model, and the call that does it.
CAPABILITIES = {
    "fine-tune": "`finetune`, the tasks",
    "embed": "`EmbeddingStream`, `keras-bert embed`",
    "LoRA": "`add_lora`",
    "plan": "`plan`",
    "explain": "`explain`, `compare`",
    "attention page": "`show_attention`",
    "plot": "`plot_model`",
    "remat": "`compile_model(remat=True)`",
    "bfloat16": "`mixed_bfloat16`",
    "distribution": "`distribute`",
    "ONNX": '`export(..., "onnx")`',
    "OpenVINO": '`export(..., "openvino")`',
    "SavedModel": '`export(..., "saved_model")`',
}

_IN_GRAPH = "TensorFlow has the operations of WordPiece alone"

# File of a family and capability to why it is not there. Everything else is tried by tests, and that this is refused.
MISSING = {
    ("roberta", "SavedModel"): _IN_GRAPH,
    ("albert", "SavedModel"): _IN_GRAPH,
    ("deberta_v2", "SavedModel"): _IN_GRAPH,
    ("modernbert", "SavedModel"): _IN_GRAPH,
    ("gte", "SavedModel"): f"{_IN_GRAPH}, which GTE's English models have",
    ("xlnet", "SavedModel"): _IN_GRAPH,
}


@contextlib.contextmanager
def tried(module, capability):
    """Where a capability is tried: without an error if the table claims it for the family, else with a refusal."""
    missing = (name_of_module(module), capability) in MISSING
    with pytest.raises(ValueError, match=r"\w\.$") if missing else contextlib.nullcontext():
        yield


def modules():
    """The modules of all families, BERT's first."""
    return [*dict.fromkeys(FAMILIES.values()), *WITHOUT_FILES]


def name_of_module(module):
    """The name of a family's file."""
    return module.__name__.rpartition(".")[2]


def has_files(module):
    """Whether Hugging Face has files of the family."""
    return module not in WITHOUT_FILES


def formats_of(module):
    """The formats that are read and written, by their names for `save_pretrained`."""
    google = ["google"] if hasattr(module, "GOOGLE") else []
    return [*(["huggingface"] if has_files(module) else []), *google, "keras"]


def heads_of(module):
    """The heads that the family has; those of its files, or without files all that its encoder has."""
    if has_files(module):
        return [head for head in HEADS if head in module.HUGGINGFACE.heads]
    return [head for head in HEADS if head in tiny_config(module).encoder().heads and head not in ("rtd", "sop")]


def tiny_config(module, **changes):
    """A config of the family's first released model, with the sizes of a test."""
    config = released()[module.SIZES[0][0]][0]
    smaller = {name: size for name, size in SMALLER.items() if getattr(config, name, None)}
    after_padding = {"position_offset": SIZES["pad_token_id"] + 1} if config.position_offset else {}
    return config.replace(**{**SIZES, **smaller, **after_padding, **changes})


XLNET = XLNetConfig(
    vocab_size=31,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    classifier_dropout=0.0,
    labels=("a", "b"),
)
ODD_XLNET = XLNET.replace(clamp_len=4, hidden_act="gelu", num_attention_heads=2, pad_token_id=0, mem_len=7, reuse_len=3)
XLNET_PAD = 5
