"""The parts of a tag such as B-city."""

OUTSIDE = "O"

# Prefix of a tag, what it is in BIOES; L and U are those of BILOU, M and W those of BMES and BMEWO.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S", "W": "S"}


def prefix_of(tag):
    """The letter before the dash of a tag."""
    return tag[:1]


def type_of(tag):
    """The label behind the dash of a tag, `_` where there is none, O for O."""
    return tag if tag == OUTSIDE else tag[2:] or "_"
