"""The settings of a WordPiece tokenizer besides its vocabulary."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WordPieceSettings:
    """How texts are normalised before they are split; the names are those of tokenizer_config.json."""

    do_lower_case: bool = True
    """Lower-case texts."""

    strip_accents: bool | None = None
    """Decompose characters and drop nonspacing marks; None: if texts are lower-cased."""

    tokenize_chinese_chars: bool = True
    """Make every CJK ideograph a word of its own."""

    @property
    def strips(self) -> bool:
        """Whether accents are dropped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents
