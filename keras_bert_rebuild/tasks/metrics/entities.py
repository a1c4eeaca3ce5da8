"""Scores of entities: whole spans of one type, as in seqeval."""

from keras_bert_rebuild.tasks.metrics.classes import check_lengths, counted
from keras_bert_rebuild.tasks.metrics.tags import OUTSIDE, PREFIXES, prefix_of, strict_entities_of, type_of


def entities_of(tags):
    """The entities that the tags of a sentence describe.

    B and S begin an entity, E and S end one, I and E continue one of the same type, or begin one if there is none: the rules of
    seqeval's default mode, and of the CoNLL script before it. They also read tags that follow the rules of any scheme.

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
        scheme: a key of `STRICT`, to count only what follows its rules, as seqeval's `mode="strict"` does; None for all entities.

    Returns:
        A dictionary with `precision`, `recall`, `f1` and `support`, the number of true ones.

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
