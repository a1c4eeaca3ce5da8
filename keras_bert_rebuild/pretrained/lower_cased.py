"""A tokenizer that lower-cases texts, for folders that ask for it whatever the settings of their tokenizer."""

from pathlib import Path

from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def lower_cased(tokenizer: BatchTokenizer, folder: Path) -> BatchTokenizer:
    """The tokenizer if it lower-cases texts, or one that does and is otherwise equal.

    Args:
        tokenizer: that of the folder.
        folder: for the error.

    Raises:
        ValueError: no such tokenizer can be made.
    """
    if not getattr(tokenizer, "cased", True) or getattr(tokenizer, "lower", False):
        return tokenizer
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.with_options(cased=False, strip_accents=tokenizer.settings.strips)  # accents stay
    raise ValueError(
        f"{folder} has do_lower_case true; expected a tokenizer that lower-cases, but a {type(tokenizer).__name__} is cased."
    )
