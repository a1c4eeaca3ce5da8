"""How ALBERT and XLM-RoBERTa use a SentencePiece model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """How texts are normalised, and how the pieces of a model become ids and rows."""

    cls: str
    pad: str
    sep: str
    unk: str
    mask: str

    front: tuple
    """Tokens that have the first ids..."""

    replaced: tuple
    """...instead of these first pieces of the model."""

    last: tuple
    """Tokens that have the ids after all pieces."""

    separators: int
    """Separators between the texts of a pair."""

    second_segment: int
    """Segment of the second text of a pair."""

    cleans: bool
    """Whether repeated spaces become one and quotation marks become plain."""

    lower: bool
    """Whether texts are lower-cased."""

    strip_accents: bool
    """Whether accents are dropped."""

    splits_digit_commas: bool
    """Whether a comma after a digit is a token of its own."""


FAMILIES = {
    # `tokenization.py` of google-research/albert.
    "albert": Family(
        cls="[CLS]", pad="<pad>", sep="[SEP]", unk="<unk>", mask="[MASK]",
        front=(), replaced=(), last=(),
        separators=1, second_segment=1,
        cleans=True, lower=True, strip_accents=True, splits_digit_commas=True,
    ),
    # fairseq's dictionary: its four tokens first, then the pieces of the model, the mask last.
    "xlm_roberta": Family(
        cls="<s>", pad="<pad>", sep="</s>", unk="<unk>", mask="<mask>",
        front=("<s>", "<pad>", "</s>", "<unk>"), replaced=("<unk>", "<s>", "</s>"), last=("<mask>",),
        separators=2, second_segment=0,
        cleans=False, lower=False, strip_accents=False, splits_digit_commas=False,
    ),
}  # fmt: skip
