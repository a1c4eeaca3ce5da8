"""BERT for Keras 3 with keras_bert's interface: every layer a row of the summary, on TensorFlow, JAX and torch.

What Keras has to know to load a file is imported here; the rest when it is first asked for.
"""

import importlib

from keras_bert_rebuild.layers import *  # noqa: F403
from keras_bert_rebuild.layers import __all__ as _layer_names
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.training.adamw import AdamW
from keras_bert_rebuild.training.conditional_random_field_loss import ConditionalRandomFieldLoss
from keras_bert_rebuild.training.lamb import Lamb
from keras_bert_rebuild.training.losses import PretrainingLoss
from keras_bert_rebuild.training.metrics import Perplexity
from keras_bert_rebuild.training.optimizer import AdamWarmup
from keras_bert_rebuild.training.task_losses import ChoiceLoss, CosineLoss, InBatchNegativesLoss, LabelLoss, SpanLoss  # noqa: F401
from keras_bert_rebuild.training.warmup_linear_decay import WarmupLinearDecay
from keras_bert_rebuild.version import __version__

# Module, the names that are asked of it.
_LAZY = (
    ("keras_bert_rebuild.config", ("BertConfig",)),
    ("keras_bert_rebuild.custom_objects", ("get_custom_objects", "set_custom_objects")),
    ("keras_bert_rebuild.data.gen_batch_inputs", ("gen_batch_inputs",)),
    ("keras_bert_rebuild.data.length_buckets", ("BucketedBatches", "bucket_batches")),
    ("keras_bert_rebuild.data.prepare", ("prepare",)),
    ("keras_bert_rebuild.data.pretraining_batches", ("pretraining_batches",)),
    ("keras_bert_rebuild.data.tf_pretraining_batches", ("tf_pretraining_batches",)),
    ("keras_bert_rebuild.data.read_labelled", ("read_examples",)),
    ("keras_bert_rebuild.data.token_store", ("TokenStore",)),
    ("keras_bert_rebuild.datasets.pretrained", ("PretrainedInfo", "PretrainedList", "get_pretrained")),
    ("keras_bert_rebuild.explain.attention_maps", ("attention_maps",)),
    ("keras_bert_rebuild.explain.attention_patterns", ("attention_patterns",)),
    ("keras_bert_rebuild.explain.embedding_anatomy", ("embedding_anatomy",)),
    ("keras_bert_rebuild.explain.nearest", ("nearest_in_texts", "nearest_tokens")),
    ("keras_bert_rebuild.explain.plot_attention", ("plot_attention",)),
    ("keras_bert_rebuild.explain.plot_model", ("plot_model",)),
    ("keras_bert_rebuild.explain.show_attention", ("show_attention",)),
    ("keras_bert_rebuild.explain.summary", ("print_summary", "summary_rows")),
    ("keras_bert_rebuild.explain.weight_names", ("weight_names",)),
    ("keras_bert_rebuild.keras_2_models", ("load_keras_2_model",)),
    ("keras_bert_rebuild.models.build_model", ("build_model",)),
    ("keras_bert_rebuild.models.get_encoders", ("get_encoder_component", "get_encoders")),
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
    ("keras_bert_rebuild.pretrained.inspect_checkpoint", ("inspect_checkpoint",)),
    (
        "keras_bert_rebuild.pretrained.vocabulary_surgery",
        ("add_tokens", "prune_vocabulary", "resize_vocabulary", "reuse_unused", "tokens_of_corpus"),
    ),
    ("keras_bert_rebuild.recipes.finetune", ("Finetuned", "finetune")),
    ("keras_bert_rebuild.recipes.finetune_settings", ("FinetuneSettings",)),
    ("keras_bert_rebuild.recipes.plan", ("plan",)),
    ("keras_bert_rebuild.recipes.plan_result", ("Plan",)),
    ("keras_bert_rebuild.recipes.predict", ("predict",)),
    ("keras_bert_rebuild.recipes.pretrain", ("pretrain",)),
    ("keras_bert_rebuild.recipes.pretrain_settings", ("PretrainSettings",)),
    (
        "keras_bert_rebuild.tasks.extract_embeddings",
        ("POOL_AVE", "POOL_MAX", "POOL_NSP", "extract_embeddings", "extract_embeddings_generator", "get_checkpoint_paths"),
    ),
    ("keras_bert_rebuild.tasks.embedding_stream", ("EmbeddingStream",)),
    ("keras_bert_rebuild.tasks.fill_mask", ("fill_mask",)),
    ("keras_bert_rebuild.tasks.multiple_choice", ("MultipleChoice",)),
    ("keras_bert_rebuild.tasks.next_sentence", ("NextSentence",)),
    ("keras_bert_rebuild.tasks.question_answerer", ("QuestionAnswerer",)),
    ("keras_bert_rebuild.tasks.saved_task", ("load_task",)),
    ("keras_bert_rebuild.tasks.sentence_embedder", ("SentenceEmbedder",)),
    ("keras_bert_rebuild.tasks.text_classifier", ("TextClassifier",)),
    ("keras_bert_rebuild.tasks.token_classifier", ("TokenClassifier",)),
    ("keras_bert_rebuild.text.align_labels", ("align_labels",)),
    ("keras_bert_rebuild.text.byte_level_bpe", ("ByteLevelBPETokenizer",)),
    ("keras_bert_rebuild.text.load_tokenizer", ("load_tokenizer",)),
    ("keras_bert_rebuild.text.pipeline_tokenizer", ("PipelineTokenizer",)),
    ("keras_bert_rebuild.text.sentencepiece_tokenizer", ("SentencePieceTokenizer",)),
    ("keras_bert_rebuild.text.tokenizer", ("Tokenizer",)),
    ("keras_bert_rebuild.text.tokens", ("TOKEN_CLS", "TOKEN_MASK", "TOKEN_PAD", "TOKEN_SEP", "TOKEN_UNK", "get_base_dict")),
    ("keras_bert_rebuild.text.vocabulary", ("load_vocabulary",)),
    ("keras_bert_rebuild.text.wordpiece_tokenizer", ("WordPieceTokenizer",)),
    ("keras_bert_rebuild.training.averaged_weights", ("averaged_weights",)),
    ("keras_bert_rebuild.training.compile_model", ("compile_model",)),
    ("keras_bert_rebuild.training.checkpoint_folder", ("CheckpointFolder",)),
    ("keras_bert_rebuild.training.distribution", ("distribute",)),
    ("keras_bert_rebuild.training.freeze", ("freeze", "train_only")),
    ("keras_bert_rebuild.training.layer_rates", ("layer_rates",)),
    ("keras_bert_rebuild.training.lora", ("add_lora", "load_lora", "save_lora", "without_lora")),
    ("keras_bert_rebuild.training.save_checkpoints", ("SaveCheckpoints",)),
    ("keras_bert_rebuild.training.schedule", ("calc_train_steps",)),
)

# Submodules that keras_bert has as attributes, and `explain` and `export`, which can be called.
_SUBMODULES = ("activations", "backend", "bert", "datasets", "explain", "export", "loader", "optimizers", "tokenizer", "util")

_MODULE_OF = {name: module for module, names in _LAZY for name in names}

__all__ = [
    *_layer_names,
    *_MODULE_OF,
    "AdamW",
    "AdamWarmup",
    "BertModel",
    "ConditionalRandomFieldLoss",
    "Lamb",
    "Perplexity",
    "PretrainingLoss",
    "PretrainingModel",
    "WarmupLinearDecay",
    "__version__",
]


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
