"""BERT for Keras 3 with keras_bert's interface: every layer a row of the summary, on TensorFlow, JAX and torch.

Classes that Keras needs to load a file are imported here; everything else is imported on first use.
"""

import importlib

from keras_bert_rebuild.version import __version__

# The modules that register a class or function with Keras: saved files refer to these, so they are imported with the package.
_REGISTERED = (
    "keras_bert_rebuild.layers",
    "keras_bert_rebuild.kernels",  # which attaches those of the backend to the layers
    "keras_bert_rebuild.families",  # the config classes, which are saved with models
    "keras_bert_rebuild.models.bert_model",
    "keras_bert_rebuild.models.pretraining_model",
    "keras_bert_rebuild.training.optimizers.adamw_and_lamb",
    "keras_bert_rebuild.training.optimizers.muon",
    "keras_bert_rebuild.training.losses",
    "keras_bert_rebuild.training.optimizers.adam_warmup",
    "keras_bert_rebuild.training.pair_losses",
    "keras_bert_rebuild.training.retrieval_losses",
    "keras_bert_rebuild.training.task_losses",
    "keras_bert_rebuild.training.reranking_losses",
    "keras_bert_rebuild.training.optimizers.rate_schedules",
)

# Modules and their public names. docs/reference/index.md gives the reason for every name.
_LAZY = (
    ("keras_bert_rebuild.config", ("BertConfig",)),
    ("keras_bert_rebuild.custom_objects", ("get_custom_objects",)),
    ("keras_bert_rebuild.data.pretraining.gen_batch_inputs", ("gen_batch_inputs",)),
    ("keras_bert_rebuild.data.labelled.length_buckets", ("BucketedBatches",)),
    ("keras_bert_rebuild.data.corpora.prepare", ("prepare",)),
    ("keras_bert_rebuild.data.pretraining.pretraining_batches", ("pretraining_batches",)),
    ("keras_bert_rebuild.data.corpora.token_store", ("TokenStore",)),
    ("keras_bert_rebuild.datasets.pretrained", ("PretrainedInfo", "PretrainedList", "get_pretrained")),
    ("keras_bert_rebuild.explain.attention_maps", ("attention_maps",)),
    ("keras_bert_rebuild.explain.show_attention", ("show_attention",)),
    ("keras_bert_rebuild.explain.summary", ("print_summary",)),
    ("keras_bert_rebuild.layers", ("gelu",)),
    ("keras_bert_rebuild.models.bert_model", ("BertModel",)),
    ("keras_bert_rebuild.models.build_model", ("build_model",)),
    ("keras_bert_rebuild.models.get_model", ("get_model", "get_token_embedding")),
    (
        "keras_bert_rebuild.pretrained",
        (
            "build_model_from_config",
            "from_pretrained",
            "load_model_weights_from_checkpoint",
            "load_trained_model_from_checkpoint",
            "save_pretrained",
        ),
    ),
    ("keras_bert_rebuild.recipes.finetuning.finetune", ("finetune",)),
    ("keras_bert_rebuild.recipes.planning.plan", ("plan",)),
    ("keras_bert_rebuild.recipes.finetuning.predict", ("predict",)),
    ("keras_bert_rebuild.recipes.pretraining.pretrain", ("pretrain",)),
    ("keras_bert_rebuild.search.index", ("Index",)),
    (
        "keras_bert_rebuild.tasks.extract_embeddings",
        ("POOL_AVE", "POOL_MAX", "POOL_NSP", "extract_embeddings", "extract_embeddings_generator", "get_checkpoint_paths"),
    ),
    ("keras_bert_rebuild.tasks.embedding_stream", ("EmbeddingStream",)),
    ("keras_bert_rebuild.tasks.pretraining_heads", ("fill_mask",)),
    ("keras_bert_rebuild.tasks.late_interaction", ("LateInteractionEmbedder",)),
    ("keras_bert_rebuild.tasks.multiple_choice", ("MultipleChoice",)),
    ("keras_bert_rebuild.tasks.pretraining_heads", ("NextSentence",)),
    ("keras_bert_rebuild.tasks.push_to_hub", ("push_to_hub",)),
    ("keras_bert_rebuild.tasks.question_answerer", ("QuestionAnswerer",)),
    ("keras_bert_rebuild.tasks.reranker", ("Reranker",)),
    ("keras_bert_rebuild.tasks.saved_task", ("load_task",)),
    ("keras_bert_rebuild.tasks.sentence_embedder", ("SentenceEmbedder",)),
    ("keras_bert_rebuild.tasks.sparse_embedder", ("SparseEmbedder",)),
    ("keras_bert_rebuild.tasks.text_classifier", ("TextClassifier",)),
    ("keras_bert_rebuild.tasks.token_classifier", ("TokenClassifier",)),
    ("keras_bert_rebuild.text.load_tokenizer", ("load_tokenizer",)),
    ("keras_bert_rebuild.text.tokenizer", ("Tokenizer",)),
    ("keras_bert_rebuild.text.vocabulary", ("TOKEN_CLS", "TOKEN_MASK", "TOKEN_PAD", "TOKEN_SEP", "TOKEN_UNK", "get_base_dict")),
    ("keras_bert_rebuild.text.vocabulary", ("load_vocabulary",)),
    ("keras_bert_rebuild.text.wordpiece_tokenizer", ("WordPieceTokenizer",)),
    ("keras_bert_rebuild.training.optimizers.adamw_and_lamb", ("AdamW",)),
    ("keras_bert_rebuild.training.compile_model", ("compile_model",)),
    ("keras_bert_rebuild.training.distributed.distribution", ("distribute",)),
    ("keras_bert_rebuild.training.optimizers.path_patterns", ("freeze", "train_only")),
    ("keras_bert_rebuild.training.lora", ("add_lora", "load_lora", "save_lora")),
    ("keras_bert_rebuild.training.optimizers.adam_warmup", ("AdamWarmup",)),
    ("keras_bert_rebuild.training.optimizers.rate_schedules", ("calc_train_steps",)),
    ("keras_bert_rebuild.training.optimizers.rate_schedules", ("WarmupLinearDecay",)),
)

# Names at the top level of keras_bert before 0.89: importable for old programs, not part of the public interface.
_OLDER = (
    ("keras_bert_rebuild.custom_objects", ("set_custom_objects",)),
    ("keras_bert_rebuild.models.get_encoders", ("get_encoder_component", "get_encoders")),
)

# Submodules that keras_bert has as attributes; `explain` and `export`, which are callable; `interpret`, which has its own names.
_SUBMODULES = (
    "activations",
    "backend",
    "bert",
    "datasets",
    "explain",
    "export",
    "interpret",
    "layers",
    "loader",
    "optimizers",
    "tokenizer",
    "util",
)

_MODULE_OF = {name: module for module, names in (*_LAZY, *_OLDER) for name in names}

__all__ = [*(name for _, names in _LAZY for name in names), "__version__", "explain", "export"]

try:
    importlib.import_module("keras")
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "jax", "torch"):
        raise
    raise ModuleNotFoundError(
        f"Keras's backend {error.name} is not installed: install it, or set the environment variable KERAS_BACKEND to an installed "
        "one, tensorflow, jax or torch, before Python starts.",
        name=error.name,
    ) from error

for _module in _REGISTERED:
    importlib.import_module(_module)


def __getattr__(name):
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"keras_bert_rebuild.{name}")
    else:
        raise AttributeError(f"module 'keras_bert_rebuild' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})
