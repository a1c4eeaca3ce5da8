"""A model with an MLM head and its tokenizer, as a task for `attribute`."""

from typing import Any

import keras

from keras_bert_rebuild.tasks.embedding_model import longest_row
from keras_bert_rebuild.tasks.text_rows import LONGEST


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
