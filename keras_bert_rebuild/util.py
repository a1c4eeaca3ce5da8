"""keras_bert's import path of the functions that extract embeddings."""

from keras_bert_rebuild.tasks.extract_embeddings import (
    POOL_AVE,
    POOL_MAX,
    POOL_NSP,
    extract_embeddings,
    extract_embeddings_generator,
    get_checkpoint_paths,
)

__all__ = ["POOL_AVE", "POOL_MAX", "POOL_NSP", "extract_embeddings", "extract_embeddings_generator", "get_checkpoint_paths"]
