"""The task of `fill_mask`, and how the task of a folder is loaded for `attribute`."""

import os
from typing import Any

import keras

from keras_bert_rebuild.pretrained.find_checkpoint import located_model
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.tasks.embedding_model import longest_row
from keras_bert_rebuild.tasks.pretraining_heads import NextSentence
from keras_bert_rebuild.tasks.saved_task import load_task, saved_kind
from keras_bert_rebuild.tasks.text_rows import LONGEST
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer


class MaskedWords:
    """The task of `fill_mask`: predicting the masked tokens of a text.

    Args:
        model: a model with an MLM head.
        tokenizer: its tokenizer, such as from `load_tokenizer`.

    Raises:
        ValueError: the model has no MLM head, or the tokenizer has no mask.
    """

    kind = "fill_mask"

    def __init__(self, model: keras.Model, tokenizer: Any) -> None:
        if "MLM" not in (names := list(model.output_names)):
            raise ValueError(f"the model must have an MLM head; its outputs are {', '.join(names)}.")
        if tokenizer.mask_id is None:
            raise ValueError("the tokenizer must have a mask token; this one has none.")
        self.model, self.tokenizer = model, tokenizer
        self.max_len = model.inputs[0].shape[1] or min(longest_row(model), LONGEST)

    @property
    def mask(self) -> str:
        """The mask as written in a text."""
        return self.tokenizer.tokens[self.tokenizer.mask_id]


def load_attributed(path: str | os.PathLike[str], kind: str | None = None, text: str = "") -> Any:
    """Load a task for `attribute` from a folder.

    Args:
        path: a folder or file that `load_task` or `from_pretrained` reads, or a name on the Hugging Face hub.
        kind: a kind of task, "fill_mask" or "next_sentence"; None for the task of the folder, or "fill_mask" if the folder has no
            task and the text has a mask.
        text: the text to attribute.

    Raises:
        ValueError: the task cannot be determined, or the weights have no head of it.
    """
    path = located_model(path)
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
