"""The parts of a tag such as B-city, the entities of tags by the rules of their scheme, and their scores, as in seqeval."""

from keras_bert_rebuild.tasks.metrics.classes import check_lengths, counted

OUTSIDE = "O"

# Prefix of a tag, and its equivalent in BIOES; L and U are those of BILOU, M and W those of BMES and BMEWO.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S", "W": "S"}
# As `PREFIXES`, with the empty prefix of a label beside others that have prefixes, such as X.
_READ = {**PREFIXES, "": "I"}

# For every scheme: between which prefixes an entity begins, continues and ends. The third character says whether the labels of both
# words must be equal (=), must differ (!), or may be any (*). These are seqeval's rules, which in legal IOE1 ignore an entity of
# one word directly before another with the same label.
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
    return tag.partition("-")[0]


def type_of(tag):
    """The label after the dash of a tag, `_` if there is none, O for O."""
    return tag if tag == OUTSIDE else tag.partition("-")[2] or "_"


def notation_of(labels):
    """Where labels have the prefixes of their tags.

    Returns:
        "prefix" for B-city, "suffix" for city-B, "bare" for B, "plain" for city; in the first two, some labels may have no prefix.
        None if labels do not describe entities: without O, all must have a prefix.
    """
    tags = set(labels) - {OUTSIDE}
    if OUTSIDE in labels and tags and tags <= PREFIXES.keys():
        return "bare"
    prefixed, suffixed = ({tag for tag in tags if _is_prefixed(tag[::step])} for step in (1, -1))
    if prefixed and (OUTSIDE in labels or prefixed == tags):
        return "prefix"
    if suffixed and suffixed == ({tag for tag in tags if "-" in tag} if OUTSIDE in labels else tags):
        return "suffix"
    return "plain" if OUTSIDE in labels and tags else None


def canonical(label, notation):
    """A label as the tag B-city; one without a prefix is -city, or I-city in the notation "plain", where no label has one."""
    if label == OUTSIDE or _is_prefixed(label) or (notation == "bare" and label in PREFIXES):
        return label
    if notation == "suffix" and _is_prefixed(label[::-1]):
        return f"{label[-1]}-{label[:-2]}"
    return f"I-{label}" if notation == "plain" else f"-{label}"


def written(tag, notation):
    """The label of a canonical tag in a notation."""
    prefix, dash, kind = tag.partition("-")
    if not dash or (prefix and notation in ("prefix", "bare")):
        return tag
    return f"{kind}-{prefix}" if prefix and notation == "suffix" else kind


def _is_prefixed(label):
    return label[:1] in PREFIXES and label[1:2] == "-" and len(label) > 2


def strict_entities_of(tags, scheme):
    """The entities whose tags follow the rules of a scheme; others are ignored.

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
    entities, i = [], 0
    while i < len(tags):
        if not _between(begins, tags[i - 1] if i else OUTSIDE, tags[i]):
            i += 1
            continue
        first, i = i, i + 1
        while i < len(tags) and _between(continues, tags[i - 1], tags[i]):
            i += 1
        if _between(ends, tags[i - 1], tags[i]):
            entities.append((type_of(tags[first]), first, i - 1))
    return entities


def _between(rules, before, tag):
    """Whether one of the rules applies to these two tags."""
    actual = prefix_of(before), prefix_of(tag), "=" if type_of(before) == type_of(tag) else "!"
    return any(all(sign in ("*", value) for sign, value in zip(rule, actual, strict=True)) for rule in rules)


def entities_of(tags):
    """The entities that the tags of a sentence describe.

    B and S begin an entity, E and S end one, I and E continue one of the same type, or begin one if there is none: the rules of
    seqeval's default mode, and of the CoNLL script. They also read legal tags of every scheme.

    Args:
        tags: `B-x`, `I-x`, `E-x`, `S-x` or `O` for every word; M and no letter, `-x`, are read as I, L as E, U and W as S.

    Returns:
        A list of `(type, first word, last word)`.

    Raises:
        ValueError: a tag is none of these.

    Example:

    >>> entities_of(["B-city", "I-city", "I-person", "O", "I-city"])
    [('city', 0, 1), ('person', 2, 2), ('city', 4, 4)]
    """
    entities, is_open = [], False
    for i, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        prefix, kind = _READ.get(prefix_of(tag)), type_of(tag)
        if prefix is None:
            raise ValueError(f"expected tags B-x, I-x, E-x, S-x or O; got {tag!r}.")
        if is_open and prefix in "IE" and entities[-1][0] == kind:
            entities[-1] = (kind, entities[-1][1], i)
        else:
            entities.append((kind, i, i))
        is_open = prefix in "BI"
    return entities


def with_insides(tags, scheme):
    """The tags with I for each B inside of an entity, in a scheme that has no other prefix for it, such as B, E and S."""
    if not set(scheme) & set("ELSUW") or set(scheme) & set("IMO"):
        return tags
    ends, read, ended = set(scheme) & set("EL"), list(tags), None
    for i in reversed(range(1, len(tags))):
        prefix, kind = prefix_of(tags[i]), type_of(tags[i])
        if prefix != "B" or kind != ended:
            ended = kind if prefix in ends else None
        if prefix == "B" and tags[i - 1] == tags[i] and (ended or not ends):
            read[i] = f"I-{kind}"
    return read


def entity_scores(true, predicted, scheme=None):
    """Precision, recall and F1 of entities, all types counted together.

    Args:
        true, predicted: the tags of every sentence.
        scheme: a key of `STRICT`, to count only entities that follow its rules, as seqeval's `mode="strict"` does; None for all.

    Returns:
        A dictionary with `precision`, `recall`, `f1` and `support`, the number of true entities.

    Raises:
        ValueError: the numbers of sentences or words differ, or a tag is unknown.

    Example:

    >>> scores = entity_scores([["B-city", "I-city", "O"]], [["B-city", "O", "O"]])
    >>> scores["f1"], scores["support"]
    (0.0, 1)

    Reference: Tjong Kim Sang and De Meulder, 2003, section 2.3 (https://aclanthology.org/W03-0419).
    """
    return _scores(*_spans(true, predicted, scheme))


def entity_type_scores(true, predicted, scheme=None):
    """`entity_scores` for every type of entities that occurs, a dictionary by type."""
    true, predicted = _spans(true, predicted, scheme)
    of = lambda spans, kind: [{span for span in row if span[0] == kind} for row in spans]  # noqa: E731
    types = sorted({span[0] for row in (*true, *predicted) for span in row})
    return {kind: _scores(of(true, kind), of(predicted, kind)) for kind in types}


def _spans(true, predicted, scheme):
    true, predicted = check_lengths(true, predicted)
    for i, (a, b) in enumerate(zip(true, predicted, strict=True)):
        if len(a) != len(b):
            raise ValueError(f"expected a tag for each of the {len(a)} words of sentence {i}; got {len(b)}.")
    read = entities_of if scheme is None else lambda tags: strict_entities_of(tags, scheme)
    return [{*read(tags)} for tags in true], [{*read(tags)} for tags in predicted]


def _scores(true, predicted):
    right = sum(len(a & b) for a, b in zip(true, predicted, strict=True))
    return counted(right, sum(map(len, true)), sum(map(len, predicted)))
