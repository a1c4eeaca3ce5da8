"""What making batches requires of a vocabulary: special ids, word starts, sentence ends."""

import re
from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK

# A sentence ends with one of ENDS, and CLOSES after it still belong to it. EITHER both open and close: no sentence is assumed to
# begin next to one.
ENDS = frozenset(".!?。！？．।॥؟۔։።…")
CLOSES = frozenset("”’»›)]}」』）］】》")
EITHER = frozenset("\"'*_")

OTHER, END, CLOSE, UNCERTAIN = range(4)

# Number of tokens inspected before a position: the end of a sentence, and what may close after it.
BEFORE = 3


def sentence_marks(vocabulary):
    """The role of every token as an end of sentence: `OTHER`, `END`, `CLOSE` or `UNCERTAIN`, uint8."""
    kinds = {**dict.fromkeys(ENDS, END), **dict.fromkeys(CLOSES, CLOSE), **dict.fromkeys(EITHER, UNCERTAIN)}
    return np.array([kinds.get(token, OTHER) for token in vocabulary], "uint8")


def sentence_begins(marks):
    """Where sentences begin, by the marks that end the sentences before them.

    An abbreviation or a number with a period counts as an end; for better results, put one sentence per passage.

    Args:
        marks: the `sentence_marks` of rows of tokens, each with the `BEFORE` tokens that precede it, `(rows, BEFORE + width)`.

    Returns:
        True where a sentence begins, `(rows, width)`, irrespective of documents and passages.
    """
    ended = marks == END
    for _ in range(BEFORE - 1):
        ended[:, 1:] |= (marks[:, 1:] == CLOSE) & ended[:, :-1]
    return ended[:, BEFORE - 1 : -1] & (marks[:, BEFORE:] == OTHER)


_UNUSED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True, eq=False)
class VocabularyTables:
    """Special ids, and properties of all tokens as arrays `(vocabulary,)`."""

    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    special: np.ndarray
    """True at special tokens, which are never predicted."""

    continues: np.ndarray
    """True at tokens that continue a word: those that start with `##`."""

    sentence_marks: np.ndarray
    """The `sentence_marks` of the tokens, uint8."""

    replacements: np.ndarray
    """The ids that random replacements are drawn from, int32: all except special and unused tokens."""


def vocabulary_tables(vocabulary):
    """Find the special tokens of a vocabulary and the properties of all tokens.

    Args:
        vocabulary: the tokens in the order of their ids.

    Returns:
        `VocabularyTables`.

    Raises:
        ValueError: a special token is missing, or all tokens are special.
    """
    tokens = list(vocabulary)
    ids = {token: i for i, token in enumerate(tokens)}
    pad = ids.get(GOOGLE_PAD, ids.get(TOKEN_PAD))
    if pad is None:
        raise ValueError(
            f"the vocabulary must have {GOOGLE_PAD} or an empty token for padding; its {len(tokens)} tokens have neither."
        )
    for token in (TOKEN_CLS, TOKEN_SEP, TOKEN_MASK):
        if token not in ids:
            raise ValueError(f"the vocabulary must have {token}; its {len(tokens)} tokens do not include it.")
    names = {GOOGLE_PAD, TOKEN_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK}
    special = np.array([token in names for token in tokens])
    unused = np.array([_UNUSED.fullmatch(token) is not None for token in tokens])
    replacements = np.flatnonzero(~special & ~unused).astype("int32")
    if not len(replacements):
        raise ValueError(f"the vocabulary must have tokens that are not special, for replacements; got {len(tokens)} special ones.")
    continues = np.array([token.startswith("##") and token != "##" for token in tokens])
    ids_of = pad, ids[TOKEN_CLS], ids[TOKEN_SEP], ids[TOKEN_MASK]
    return VocabularyTables(*ids_of, special, continues, sentence_marks(tokens), replacements)
