"""The parts of a tag such as B-city, and the entities of tags by the rules of their scheme, as in seqeval's strict mode."""

OUTSIDE = "O"

# Prefix of a tag, and its equivalent in BIOES; L and U are those of BILOU, M and W those of BMES and BMEWO.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S", "W": "S"}

# For every scheme: between which prefixes an entity begins, continues and ends. The third sign is whether the labels of both words
# are the same (=), differ (!), or may be any (*). These are seqeval's rules: of legal IOE1 it leaves out an entity of one word
# directly before another one of its label.
STRICT = {
    "IOB1":  ("OI* II! BI* IB= BB=", "BI= II=", "II! IO* IB* BO* BI! BB="),
    "IOB2":  ("*B*", "BI= II=", "IO* II! IB* BO* BI! BB*"),
    "IOE1":  ("OI* II! EI* EE=", "II= IE=", "II! IO* IE! EI= EE="),
    "IOE2":  ("OI* OE* EI* EE* II! IE!", "IE= II=", "E**"),
    "BIOES": ("*B* *S*", "BI= BE= II= IE=", "S** E**"),
    "BILOU": ("*B* *U*", "BI= BL= II= IL=", "U** L**"),
}  # fmt: skip


def prefix_of(tag):
    """The letter before the dash of a tag."""
    return tag[:1]


def type_of(tag):
    """The label after the dash of a tag, `_` if there is none, O for O."""
    return tag if tag == OUTSIDE else tag[2:] or "_"


def strict_entities_of(tags, scheme):
    """The entities that follow the rules of a scheme; others are ignored.

    Args:
        tags: the tags of a sentence.
        scheme: a key of `STRICT`.

    Returns:
        A list of `(type, first word, last word)`.

    Raises:
        ValueError: the scheme is unknown, or a tag does not belong to it.

    Example:

    >>> strict_entities_of(["I-city", "O", "B-city", "I-city"], "IOB2")
    [('city', 2, 3)]

    Reference: `seqeval.scheme` of seqeval 1.2.2.
    """
    if scheme not in STRICT:
        raise ValueError(f"scheme must be one of {', '.join(STRICT)}; got {scheme!r}.")
    for tag in tags:
        if tag != OUTSIDE and prefix_of(tag) not in set(scheme) - set("O12"):
            raise ValueError(f"expected tags of {scheme}; got {tag!r}.")
    begins, continues, ends = (rules.split() for rules in STRICT[scheme])
    tags = [*tags, OUTSIDE]
    found, i = [], 0
    while i < len(tags):
        if not _between(begins, tags[i - 1] if i else OUTSIDE, tags[i]):
            i += 1
            continue
        first, i = i, i + 1
        while i < len(tags) and _between(continues, tags[i - 1], tags[i]):
            i += 1
        if _between(ends, tags[i - 1], tags[i]):
            found.append((type_of(tags[first]), first, i - 1))
    return found


def _between(rules, before, tag):
    """Whether one of the rules applies to these two tags."""
    actual = prefix_of(before), prefix_of(tag), "=" if type_of(before) == type_of(tag) else "!"
    return any(all(sign in ("*", found) for sign, found in zip(rule, actual, strict=True)) for rule in rules)
