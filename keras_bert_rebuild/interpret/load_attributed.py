"""Load the task of a folder, including the tasks of pretraining, which are not saved as tasks."""

import os
from typing import Any

from keras_bert_rebuild.interpret.masked_words import MaskedWords
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.tasks.pretraining_heads import NextSentence
from keras_bert_rebuild.tasks.saved_task import load_task, saved_kind
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer


def load_attributed(path: str | os.PathLike[str], kind: str | None = None, text: str = "") -> Any:
    """Load a task for `attribute` from a folder.

    Args:
        path: a folder or file that `load_task` or `from_pretrained` reads.
        kind: a kind of task, "fill_mask" or "next_sentence"; None for the task of the folder, or "fill_mask" if the folder has no
            task and the text has a mask.
        text: the text to attribute.

    Raises:
        ValueError: the task cannot be determined, or the weights have no head of it.
    """
    if kind is None and saved_kind(path) is None:
        tokenizer = load_tokenizer(path)
        mask = tokenizer.tokens.get(tokenizer.mask_id)
        kind = "fill_mask" if mask is not None and mask in text else None
    if kind is not None:
        kind = kind.replace("-", "_")
    if kind == "next_sentence":
        return NextSentence(path)
    if kind == "fill_mask":
        return MaskedWords(from_pretrained(path, heads=("mlm",)), load_tokenizer(path))
    return load_task(path, kind)
