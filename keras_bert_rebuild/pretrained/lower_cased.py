"""A tokenizer that lower-cases texts, for folders that require it whatever the tokenizer's settings."""

from pathlib import Path

from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def lower_cased(tokenizer: BatchTokenizer, folder: Path) -> BatchTokenizer:
    """The tokenizer, or, if it does not lower-case texts, a copy that does.

    Args:
        tokenizer: the tokenizer of the folder.
        folder: the folder, for the error.

    Raises:
        ValueError: this kind of tokenizer cannot lower-case.
    """
    if not getattr(tokenizer, "cased", True) or getattr(tokenizer, "lower", False):
        return tokenizer
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.with_options(cased=False, strip_accents=tokenizer.settings.strips)  # keep the setting of accents
    raise ValueError(
        f"{folder} has do_lower_case true; expected a tokenizer that can lower-case, but a {type(tokenizer).__name__} cannot."
    )
