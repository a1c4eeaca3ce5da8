"""How ALBERT, XLNet, XLM-RoBERTa and DeBERTa use SentencePiece models: normalisation, special ids and offsets."""

import bisect
import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """How texts are normalised, and how the pieces of a model are mapped to ids and rows."""

    file: str
    """Name of the model file in the folder of a checkpoint."""

    transformers: str
    """The class of transformers."""

    cls: str
    pad: str
    sep: str
    unk: str
    mask: str

    front: tuple
    """Tokens with the first ids..."""

    replaced: tuple
    """...in place of these first pieces of the model."""

    last: tuple
    """Tokens with the ids after all pieces."""

    separators: int
    """Number of separators between the texts of a pair."""

    second_segment: int
    """Segment of the second text of a pair."""

    cleans: bool
    """Whether repeated spaces are merged and quotation marks made plain."""

    lower: bool
    """Whether texts are lower-cased."""

    strip_accents: bool
    """Whether accents are dropped."""

    splits_digit_commas: bool
    """Whether a comma after a digit is a separate token."""

    mask_takes_space: bool = True
    """Whether white space before a written mask belongs to it."""

    cls_last: bool = False
    """Whether rows end with the class token."""


FAMILIES = {
    # `tokenization.py` of google-research/albert.
    "albert": Family(
        file="spiece.model", transformers="AlbertTokenizer",
        cls="[CLS]", pad="<pad>", sep="[SEP]", unk="<unk>", mask="[MASK]",
        front=(), replaced=(), last=(),
        separators=1, second_segment=1,
        cleans=True, lower=True, strip_accents=True, splits_digit_commas=True,
    ),
    # fairseq's dictionary: its four tokens first, then the pieces of the model, the mask last.
    "xlm_roberta": Family(
        file="sentencepiece.bpe.model", transformers="XLMRobertaTokenizer",
        cls="<s>", pad="<pad>", sep="</s>", unk="<unk>", mask="<mask>",
        front=("<s>", "<pad>", "</s>", "<unk>"), replaced=("<unk>", "<s>", "</s>"), last=("<mask>",),
        separators=2, second_segment=0,
        cleans=False, lower=False, strip_accents=False, splits_digit_commas=False,
    ),
    # `spm_tokenizer.py` of microsoft/DeBERTa, versions 2 and 3: the pieces of the model, the mask last.
    "deberta_v2": Family(
        file="spm.model", transformers="DebertaV2Tokenizer",
        cls="[CLS]", pad="[PAD]", sep="[SEP]", unk="[UNK]", mask="[MASK]",
        front=(), replaced=(), last=("[MASK]",),
        separators=1, second_segment=1,
        cleans=False, lower=False, strip_accents=False, splits_digit_commas=False, mask_takes_space=False,
    ),
    # `prepro_utils.py` of zihangdai/xlnet: the pieces of the model, the class token last in a row.
    "xlnet": Family(
        file="spiece.model", transformers="XLNetTokenizer",
        cls="<cls>", pad="<pad>", sep="<sep>", unk="<unk>", mask="<mask>",
        front=(), replaced=(), last=(),
        separators=1, second_segment=1, cls_last=True,
        cleans=True, lower=False, strip_accents=True, splits_digit_commas=True,
    ),
}  # fmt: skip


QUOTES = ("``", "''")

_UNITS = re.compile(r"``|''|\s+|.", re.DOTALL)


def normalized(text, lower, strip_accents):
    """The text with single spaces and plain quotation marks, optionally lower-cased and without accents.

    Reference: `preprocess_text` in `tokenization.py` of google-research/albert, with the quotation marks of
    `preprocess_text` in `prepro_utils.py` of zihangdai/xlnet.
    """
    text = " ".join(text.split())
    for mark in QUOTES:
        text = text.replace(mark, '"')
    if strip_accents and not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return text.lower() if lower else text


def normalized_with_offsets(text, lower, strip_accents):
    """The result of `normalized`, with the offsets of every character in the original.

    Returns:
        A string, and for its characters a list of the starts and one of the stops in the original.
    """
    placed = []
    for unit in _UNITS.finditer(text, len(text) - len(text.lstrip()), len(text.rstrip())):
        char = '"' if unit.group() in QUOTES else " " if unit.group().isspace() else unit.group()
        # A character decomposes independently of others, except for the order of marks, which are dropped.
        chars = [c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c)] if strip_accents else [char]
        placed += [(c, unit.start(), unit.end()) for c in chars]
    plain = "".join(c for c, _, _ in placed)
    if not lower:
        return plain, [start for _, start, _ in placed], [stop for _, _, stop in placed]
    # All characters at once, since a final sigma has its own form; the number of characters that one becomes does not depend on its
    # neighbours.
    sizes = [len(c.lower()) for c in plain]
    starts = [start for (_, start, _), size in zip(placed, sizes, strict=True) for _ in range(size)]
    stops = [stop for (_, _, stop), size in zip(placed, sizes, strict=True) for _ in range(size)]
    return plain.lower(), starts, stops


SPACE = "▁"


def piece_offsets(model, text, pieces, origins):
    """Offsets of the pieces of one text.

    SentencePiece normalises a text and splits the result; for every normalised character it returns the offset of the first
    original one.

    Args:
        model: a `SentencePieceProcessor`.
        text: its input.
        pieces: its output, strings.
        origins: None, or for every character of `text` its start and stop in the original.

    Returns:
        Starts, stops and word indices, a list each. A piece that is only a space mark has an empty span before the word.

    Raises:
        ValueError: the pieces are not the normalised text.
    """
    plain, begins = model.normalize(text, with_offsets=True)
    begins = _split_unchanged(text, plain, begins)
    if "".join(pieces) != plain:
        raise ValueError(f"for offsets, pieces must form the normalised text; those of {text[:40]!r} do not.")
    starts, stops, words = [], [], []
    end, word = 0, -1
    for piece in pieces:
        begin, end = end, end + len(piece)
        if piece[0] == SPACE or word < 0:
            word += 1
        bare = begin + (piece[0] == SPACE)
        start = begins[bare]
        stop = _tight(model, text, begins, end - 1) if end > bare else start
        if origins is not None:
            start, stop = _original(start, stop, *origins)
        starts.append(start)
        stops.append(stop)
        words.append(word)
    return starts, stops, words


def _split_unchanged(text, plain, begins):
    """Offsets of single characters where SentencePiece has one for several unchanged characters, as in user-defined pieces."""
    begins = list(begins)
    first = 0
    while first < len(plain):
        end = bisect.bisect_right(begins, begins[first])
        first += plain[first] == SPACE
        if end - first > 1 and text[begins[first] : begins[first] + end - first] == plain[first:end]:
            begins[first:end] = range(begins[first], begins[first] + end - first)
        first = max(end, first)
    return begins


def _tight(model, text, begins, last):
    """The end of the original of a normalised character, without trailing characters that normalisation drops."""
    start = begins[last]
    following = bisect.bisect_right(begins, start)
    stop = begins[following] if following < len(begins) else len(text)
    whole = model.normalize(text[start:stop]) if stop - start > 1 else None
    while stop - start > 1 and model.normalize(text[start : stop - 1]) == whole:
        stop -= 1
    return stop


def _original(start, stop, starts, stops):
    if start == stop:
        offset = starts[start] if start < len(starts) else stops[-1]
        return offset, offset
    return starts[start], stops[stop - 1]
