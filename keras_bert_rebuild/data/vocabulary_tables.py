"""What batches need to know about a vocabulary, looked up by the names of its tokens."""

import re
from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.sentence_ends import sentence_marks
from keras_bert_rebuild.text.tokens import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK

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
