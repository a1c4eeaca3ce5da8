"""The parts of a tag such as B-city, the entities of tags by the rules of their scheme, and their scores, as in seqeval."""

from keras_bert_rebuild.tasks.metrics.classes import check_lengths, counted

OUTSIDE = "O"

# Prefix of a tag, and its equivalent in BIOES; L and U are those of BILOU, M and W those of BMES and BMEWO.
PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S", "W": "S"}

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
    return tag[:1]


def type_of(tag):
    """The label after the dash of a tag, `_` if there is none, O for O."""
    return tag if tag == OUTSIDE else tag[2:] or "_"


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


def entities_of(tags):
    """The entities that the tags of a sentence describe.

    B and S begin an entity, E and S end one, I and E continue one of the same type, or begin one if there is none: the rules of
    seqeval's default mode, and of the CoNLL script. They also read legal tags of every scheme.

    Args:
        tags: `B-x`, `I-x`, `E-x`, `S-x` or `O` for every word; M is read as I, L as E, U and W as S.

    Returns:
        A list of `(type, first word, last word)`.

    Raises:
        ValueError: a tag is none of these.

    Example:

    >>> entities_of(["B-city", "I-city", "I-person", "O", "I-city"])
    [('city', 0, 1), ('person', 2, 2), ('city', 4, 4)]
    """
    found, is_open = [], False
    for i, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        prefix, kind = PREFIXES.get(prefix_of(tag)), type_of(tag)
        if prefix is None or tag[1:2] not in ("", "-"):
            raise ValueError(f"expected tags B-x, I-x, E-x, S-x or O; got {tag!r}.")
        if is_open and prefix in "IE" and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1], i)
        else:
            found.append((kind, i, i))
        is_open = prefix in "BI"
    return found


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
    found = sum(len(a & b) for a, b in zip(true, predicted, strict=True))
    return counted(found, sum(map(len, true)), sum(map(len, predicted)))
