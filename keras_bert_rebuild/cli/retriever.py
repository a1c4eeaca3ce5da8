"""The model of `--model` for verbs that search: a folder that `load_task` reads, or one for OpenVINO."""

from pathlib import Path


def load_retriever(path):
    """Load a model that makes vectors.

    Args:
        path: a folder of a fine-tuned model or of sentence-transformers, or one of `keras-bert export` for OpenVINO.

    Raises:
        ValueError: the model does not make vectors, or a package is missing.
    """
    from keras_bert_rebuild.export.runtimes import SETTINGS

    if (Path(path) / SETTINGS).is_file():
        from keras_bert_rebuild.export.exported_retriever import ExportedRetriever

        return ExportedRetriever.load(path)
    from keras_bert_rebuild.search.retrievers import load_retriever

    return load_retriever(path)
