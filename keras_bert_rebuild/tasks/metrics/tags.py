"""The parts of a tag such as B-city, and the entities of tags by the rules of their scheme, as seqeval's strict mode counts."""

OUTSIDE = "O"

# Prefix of a tag, what it is in BIOES; L and U are those of BILOU, M and W those of BMES and BMEWO.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S", "W": "S"}

# For every scheme: between which prefixes an entity begins, goes on and is over. The third sign tells whether the labels of both
# words are the same (=), are not (!), or may be any (*). These are seqeval's rules: of legal IOE1 it leaves out an entity of one
# word that stands before another of its label.
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
    """The label behind the dash of a tag, `_` where there is none, O for O."""
    return tag if tag == OUTSIDE else tag[2:] or "_"


def strict_entities_of(tags, scheme):
    """The entities that keep the rules of a scheme; what does not is none.

    Args:
        tags: of the words of a sentence.
        scheme: a key of `STRICT`.

    Returns:
        A list of `(type, first word, last word)`.

    Raises:
        ValueError: another scheme, or a tag that is not of it.

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
    begins, goes_on, is_over = (rules.split() for rules in STRICT[scheme])
    tags = [*tags, OUTSIDE]
    found, i = [], 0
    while i < len(tags):
        if not _between(begins, tags[i - 1] if i else OUTSIDE, tags[i]):
            i += 1
            continue
        first, i = i, i + 1
        while i < len(tags) and _between(goes_on, tags[i - 1], tags[i]):
            i += 1
        if _between(is_over, tags[i - 1], tags[i]):
            found.append((type_of(tags[first]), first, i - 1))
    return found


def _between(rules, before, tag):
    """Whether one of the rules speaks of these two tags."""
    here = prefix_of(before), prefix_of(tag), "=" if type_of(before) == type_of(tag) else "!"
    return any(all(said in ("*", is_so) for said, is_so in zip(rule, here, strict=True)) for rule in rules)
