"""What batches need to know of a vocabulary: special ids, word starts, sentence ends."""

import re
from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK

# A sentence ends with one of the first, and those of the second that follow belong to it. The third both open and close: no
# sentence is assumed to begin next to one.
ENDS = frozenset(".!?。！？．।॥؟۔։።…")
CLOSES = frozenset("”’»›)]}」』）］】》")
EITHER = frozenset("\"'*_")

OTHER, END, CLOSE, UNCERTAIN = range(4)

# Tokens that are inspected before a position: the end of a sentence, and what may close after it.
BEFORE = 3


def sentence_marks(vocabulary):
    """The role of every token of a vocabulary at the end of a sentence: `OTHER`, `END`, `CLOSE` or `UNCERTAIN`, uint8."""
    kinds = {**dict.fromkeys(ENDS, END), **dict.fromkeys(CLOSES, CLOSE), **dict.fromkeys(EITHER, UNCERTAIN)}
    return np.array([kinds.get(token, OTHER) for token in vocabulary], "uint8")


def sentence_begins(marks):
    """Where sentences begin, according to the marks at the end of the sentences before them.

    An abbreviation or a number with a point counts as an end: for better results, split the text into sentences, one per passage.

    Args:
        marks: marks of rows of tokens and of `BEFORE` tokens before each row, from `sentence_marks`, `(rows, BEFORE + width)`.

    Returns:
        True where one begins, `(rows, width)`, regardless of documents and passages.
    """
    ended = marks == END
    for _ in range(BEFORE - 1):
        ended[:, 1:] |= (marks[:, 1:] == CLOSE) & ended[:, :-1]
    return ended[:, BEFORE - 1 : -1] & (marks[:, BEFORE:] == OTHER)


_UNUSED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True, eq=False)
class VocabularyTables:
    """Special ids, and tables `(vocabulary,)` of properties of tokens."""

    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    special: np.ndarray
    """True at special tokens, which are never predicted."""

    continues: np.ndarray
    """True at tokens that continue the word of the token before them: those that start with `##`."""

    sentence_marks: np.ndarray
    """The role of tokens at the end of a sentence, as from `sentence_marks`, uint8."""

    replacements: np.ndarray
    """The ids that random replacements are drawn from, int32: all but special and unused tokens."""


def vocabulary_tables(vocabulary):
    """Look up the special tokens of a vocabulary and the properties of all.

    Args:
        vocabulary: the tokens in the order of their ids.

    Returns:
        `VocabularyTables`.

    Raises:
        ValueError: a special token is missing, or there are no other tokens.
    """
    tokens = list(vocabulary)
    ids = {token: i for i, token in enumerate(tokens)}
    pad = ids.get(GOOGLE_PAD, ids.get(TOKEN_PAD))
    if pad is None:
        raise ValueError(
            f"the vocabulary must hold {GOOGLE_PAD} or an empty token for padding; none of its {len(tokens)} tokens is one."
        )
    for token in (TOKEN_CLS, TOKEN_SEP, TOKEN_MASK):
        if token not in ids:
            raise ValueError(f"the vocabulary must hold {token}; none of its {len(tokens)} tokens is it.")
    names = {GOOGLE_PAD, TOKEN_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK}
    special = np.array([token in names for token in tokens])
    unused = np.array([_UNUSED.fullmatch(token) is not None for token in tokens])
    replacements = np.flatnonzero(~special & ~unused).astype("int32")
    if not len(replacements):
        raise ValueError(f"the vocabulary must hold a token that is not special, to mask with; got {len(tokens)} special ones.")
    continues = np.array([token.startswith("##") and token != "##" for token in tokens])
    ids_of = pad, ids[TOKEN_CLS], ids[TOKEN_SEP], ids[TOKEN_MASK]
    return VocabularyTables(*ids_of, special, continues, sentence_marks(tokens), replacements)
