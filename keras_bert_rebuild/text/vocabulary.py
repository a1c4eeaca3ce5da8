"""Vocabularies: files with one token per line, whose line number is its id; special tokens; learning pieces from a corpus."""

import os
from collections import Counter
from collections.abc import Iterable

from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.kinds import VOCABULARY
from keras_bert_rebuild.files.output import check_file
from keras_bert_rebuild.files.reading import read_bytes


def load_vocabulary(vocab_path: str | os.PathLike[str]) -> dict[str, int]:
    """Read a vocabulary.

    Lines end only at a line feed; white space around a token is dropped. A repeated token has the id of its last line, as in
    Google's code, and does not shift other ids (in keras_bert it did).

    Args:
        vocab_path: a text file in UTF-8.

    Returns:
        A dictionary from token to id.

    Raises:
        ValueError: the file is not UTF-8, not a file, or larger than the limit for vocabularies.
        OSError: reading fails.
    """
    try:
        text = read_bytes(vocab_path, "vocabulary_bytes").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{vocab_path} must be a vocabulary in UTF-8: {error}.") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return {line.strip(): i for i, line in enumerate(lines)}


def save_vocabulary(tokens: Iterable[str], vocab_path: str | os.PathLike[str]) -> None:
    """Write tokens in id order, atomically; an existing vocabulary is replaced, but no other file.

    Raises:
        ValueError: the existing file is not a vocabulary, or the suffix is not .txt, .vocab or empty.
        OSError: writing fails.
    """
    check_file(vocab_path, VOCABULARY)
    content = "".join(f"{token}\n" for token in tokens).encode()
    write_file(vocab_path, lambda file: file.write(content))


class Vocabulary(dict[str, int]):
    """Token to id, with the case of the vocabulary before tokens were added to it, which they must not change."""

    cased: bool | None = None


def is_cased(tokens):
    """Whether a vocabulary has upper-case letters outside its special tokens, so that texts may not be lower-cased.

    Args:
        tokens: the tokens, without added ones; a `Vocabulary` knows.
    """
    stated = tokens.cased if isinstance(tokens, Vocabulary) else None
    if stated is not None:
        return stated
    return any(token != token.lower() for token in tokens if not (token.startswith("[") and token.endswith("]")))


TOKEN_PAD = ""  # keras_bert's; [PAD] in Google's vocabularies
TOKEN_UNK = "[UNK]"
TOKEN_CLS = "[CLS]"
TOKEN_SEP = "[SEP]"
TOKEN_MASK = "[MASK]"

GOOGLE_PAD = "[PAD]"


def get_base_dict() -> dict[str, int]:
    """A new dictionary of the special tokens and their ids.

    Example:

    >>> get_base_dict()
    {'': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4}
    """
    return {token: i for i, token in enumerate((TOKEN_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK))}


# Google's ids: 0 for [PAD], then 99 unused rows for the user's words, then 100 to 103.
SPECIAL_TOKENS = (GOOGLE_PAD, *(f"[unused{i}]" for i in range(99)), TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)

WORD_START = "▁"

_WORDS_PER_LINE = 10_000


def train_vocabulary(words, size, max_characters=1000):
    """Learn the pieces of a vocabulary from words.

    The pieces are those of byte-pair encoding over words with a mark at their start: a marked piece starts words, others become
    `##` pieces. Deterministic, unlike the WordPiece trainer of `tokenizers`.

    Args:
        words: an iterable of words, see `split_words`, or a mapping from word to count.
        size: vocabulary size, special tokens included.
        max_characters: how many of the most frequent characters get pieces; the rest are unknown.

    Returns:
        The tokens in id order: special tokens with Google's ids, characters, pieces by rank.

    Raises:
        ValueError: there are no words, or the size is too small for the special tokens and the characters.

    Reference: Sennrich et al., 2016, section 3.2 (https://arxiv.org/abs/1508.07909).
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    counts = Counter(words)
    if not counts:
        raise ValueError("a vocabulary must be learned from at least one word; got none: the corpus is empty.")
    characters = Counter()
    for word, count in counts.items():
        for char in word:
            characters[char] += count
    ranked = sorted(characters, key=lambda char: (-characters[char], char))[:max_characters]
    known_characters = set(ranked)
    alphabet = [*sorted(ranked), *(f"##{char}" for char in sorted(ranked))]
    rest = size - len(SPECIAL_TOKENS) - len(alphabet)
    if rest < 0:
        raise ValueError(
            f"size must be at least {size - rest} for {len(SPECIAL_TOKENS)} special tokens and {len(ranked)} letters; got {size}."
        )
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always")
    # Characters and their marked forms first; then one merge per piece.
    trainer = trainers.BpeTrainer(vocab_size=2 * len(ranked) + 1 + rest, min_frequency=2, show_progress=False)
    model.train_from_iterator(
        _lines((word, count) for word, count in sorted(counts.items()) if known_characters.issuperset(word)), trainer
    )
    learned = sorted(model.get_vocab().items(), key=lambda item: item[1])
    pieces = (piece[1:] if piece.startswith(WORD_START) else f"##{piece}" for piece, _ in learned)
    present = {*SPECIAL_TOKENS, *alphabet, "", "##"}
    new = [piece for piece in dict.fromkeys(pieces) if piece not in present]
    return [*SPECIAL_TOKENS, *alphabet, *new[:rest]]


def _lines(counts):
    """Lines that repeat every word as often as it was counted, with several lines for a frequent word to limit their length."""
    for word, count in counts:
        for done in range(0, count, _WORDS_PER_LINE):
            yield " ".join([word] * min(count - done, _WORDS_PER_LINE))
