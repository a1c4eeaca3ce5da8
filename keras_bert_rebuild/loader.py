"""keras_bert's import path of the loaders."""

from keras_bert_rebuild.pretrained import (
    build_model_from_config,
    checkpoint_loader,
    load_model_weights_from_checkpoint,
    load_trained_model_from_checkpoint,
)
from keras_bert_rebuild.text.vocabulary import load_vocabulary

__all__ = [
    "build_model_from_config",
    "checkpoint_loader",
    "load_model_weights_from_checkpoint",
    "load_trained_model_from_checkpoint",
    "load_vocabulary",
]
