"""The tokenizer of a task, and its files."""

from pathlib import Path

from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files, tokenizer_of_files, vocabulary_files
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def task_tokenizer(model, tokenizer=None):
    """Find the tokenizer of a model.

    Args:
        model: a model with a config; `from_pretrained` stores the tokenizer's files in its `load_report`.
        tokenizer: None for the one that came with the model; a `BatchTokenizer`, a path as for `load_tokenizer`, or keras_bert's
            vocabulary, a dictionary from token to id.

    Returns:
        A `BatchTokenizer` and its files, name to bytes.

    Raises:
        ValueError: the model came without a tokenizer, or the tokenizer has another padding id or more tokens than the model.
    """
    files = getattr(getattr(model, "load_report", None), "tokenizer_files", None) or {}
    if isinstance(tokenizer, (str, Path)):
        path = Path(tokenizer)
        tokenizer, files = load_tokenizer(path), read_tokenizer_files(path if path.is_dir() else path.parent)
        if path.is_file() and path.name not in files:  # a vocab.txt of another name
            files = vocabulary_files(tokenizer, model.config.max_length)
    elif tokenizer is not None:
        tokenizer = tokenizer if isinstance(tokenizer, BatchTokenizer) else WordPieceTokenizer(tokenizer)
        files = vocabulary_files(tokenizer, model.config.max_length)
    elif files:
        tokenizer = tokenizer_of_files(files, {"model_type": model.config.family})
    else:
        raise ValueError("the model came without a tokenizer: pass one, or the path of its folder, as tokenizer=.")
    if model.config.type_vocab_size == 1 and tokenizer.second_segment and hasattr(tokenizer, "with_options"):
        tokenizer = tokenizer.with_options(second_segment=0)  # the model has one segment
    largest = max(tokenizer.tokens, default=0)
    if largest >= model.config.vocab_size:
        raise ValueError(f"the ids of the tokenizer must be below {model.config.vocab_size}, the rows of the model; got {largest}.")
    if tokenizer.pad_id != model.config.pad_token_id:
        pad_id = model.config.pad_token_id
        raise ValueError(f"the tokenizer must pad with {pad_id}, as the model does; it pads with {tokenizer.pad_id}.")
    return tokenizer, files
