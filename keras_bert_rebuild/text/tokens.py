"""The special tokens."""

TOKEN_PAD = ""  # keras_bert's, where Google's vocabularies have [PAD]
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
