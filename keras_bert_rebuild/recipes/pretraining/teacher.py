"""The teacher of a distillation: loading it, and its config and tokenizer."""

import functools

from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained import from_pretrained
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files, tokenizer_of_files


def load_teacher(path, packed=False):
    """A model with the MLM head if the checkpoint has one, and no other head.

    Args:
        path: anything that `from_pretrained` reads.
        packed: whether rows hold several sequences.

    Returns:
        A `BertModel`.

    Raises:
        ValueError: the path cannot be read.
    """
    present = find_checkpoint(path).heads  # None for a file of Keras, which loads as a whole
    model = from_pretrained(path, heads=None if present is None else heads_of_teacher(present))
    heads = heads_of_teacher(heads_of(model))
    if not packed and tuple(heads_of(model)) == tuple(heads):
        return model
    other = build_model(model.config, heads, packed=packed)
    loaded = {layer.name: layer for layer in model.layers}
    for layer in other.layers:
        if layer.weights:
            layer.set_weights(loaded[layer.name].get_weights())
    return other


def heads_of_teacher(present):
    """The heads of a checkpoint that a teacher is loaded with."""
    return [head for head in present if head == "mlm"]


@functools.lru_cache(maxsize=8)
def teacher_facts(path):
    """The config and the heads of a teacher, read once per process.

    Args:
        path: the path as a string.

    Returns:
        Its `BertConfig` and a tuple of heads.
    """
    checkpoint = find_checkpoint(path)
    if checkpoint.config is not None:
        return checkpoint.config, tuple(heads_of_teacher(checkpoint.heads))
    model = from_pretrained(path)
    return model.config, tuple(heads_of_teacher(heads_of(model)))


def teacher_tokenizer(path):
    """The tokenizer in the folder of a teacher; None if there is none."""
    folder = find_checkpoint(path).folder
    files = read_tokenizer_files(folder)
    return tokenizer_of_files(files, where=folder) if files else None


def check_vocabulary(path, config, vocabulary, pad_id):
    """Refuse a store whose vocabulary differs from the teacher's.

    Args:
        path: the path of the teacher.
        config: the teacher's `BertConfig`.
        vocabulary: the tokens of the store in the order of their ids.
        pad_id: the id of padding in the store.

    Raises:
        ValueError: sizes, ids of padding, or tokens differ.
    """
    for what, theirs, ours in (
        ("tokens in its vocabulary", config.vocab_size, len(vocabulary)),
        ("the id of padding", config.pad_token_id, pad_id),
    ):
        if theirs != ours:
            raise ValueError(f"the store must have the teacher's vocabulary: {path} has {theirs} as {what}; the store has {ours}.")
    tokenizer = teacher_tokenizer(path)
    if tokenizer is None:
        return
    for i, token in enumerate(vocabulary):
        theirs = tokenizer.tokens.get(i, token)
        if (theirs or "[PAD]") != (token or "[PAD]"):  # keras_bert's vocabularies pad with the empty string
            raise ValueError(
                f"the store must have the teacher's vocabulary: token {i} of {path} is {theirs!r}; the store's {token!r}."
            )
