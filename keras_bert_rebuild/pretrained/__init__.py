"""Load checkpoints of all formats into models, and save models."""

from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.pretrained.keras_bert_loaders import (
    build_model_from_config,
    checkpoint_loader,
    load_model_weights_from_checkpoint,
    load_trained_model_from_checkpoint,
)
from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained

__all__ = [
    "build_model_from_config",
    "checkpoint_loader",
    "from_pretrained",
    "load_model_weights_from_checkpoint",
    "load_trained_model_from_checkpoint",
    "save_pretrained",
]
