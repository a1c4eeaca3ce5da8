"""What a WordPiece tokenizer is told about texts besides its vocabulary."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WordPieceSettings:
    """How texts are cleaned before they are cut; the names are those of tokenizer_config.json."""

    do_lower_case: bool = True
    """Put texts in lower case."""

    strip_accents: bool | None = None
    """Decompose characters and drop the marks that do not take a place of their own; None: where texts are put in lower case."""

    tokenize_chinese_chars: bool = True
    """Make every CJK ideograph a word of its own."""

    @property
    def strips(self) -> bool:
        """Whether accents are dropped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents
