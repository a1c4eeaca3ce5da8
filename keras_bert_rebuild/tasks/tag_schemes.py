"""Tagging schemes of entities as one table: IO, IOB1, IOB2, IOE1, IOE2, BIOES, BILOU and variants."""

import functools
import itertools
from collections import Counter, namedtuple

import numpy as np

from keras_bert_rebuild.layers.conditional_random_field import viterbi
from keras_bert_rebuild.tasks.metrics.entities import (
    OUTSIDE,
    PREFIXES,
    canonical,
    entities_of,
    notation_of,
    prefix_of,
    type_of,
    with_insides,
    written,
)

# The neighbour of a word in an entity: a word of the same entity, a word of another entity with the same label, or anything else (a
# word outside, an entity with another label, an end of the text).
SAME_ENTITY, SAME_LABEL, OTHER = "=", "&", "|"

# For every scheme its prefixes, and for each the allowed neighbours to its left and right. B in IOB1 begins an entity only directly
# after another with the same label; E in IOE1 ends an entity only directly before one.
SCHEMES = {
    "IO":    {"I": ("=|", "=|")},
    "IOB2":  {"B": ("&|", "=&|"), "I": ("=", "=&|")},
    "IOB1":  {"B": ("&", "=&|"), "I": ("=|", "=&|")},
    "IOE2":  {"I": ("=&|", "="), "E": ("=&|", "&|")},
    "IOE1":  {"I": ("=&|", "=|"), "E": ("=&|", "&")},
    "BIOES": {"B": ("&|", "="), "I": ("=", "="), "E": ("=", "&|"), "S": ("&|", "&|")},
    "BILOU": {"B": ("&|", "="), "I": ("=", "="), "L": ("=", "&|"), "U": ("&|", "&|")},
    "BMES":  {"B": ("&|", "="), "M": ("=", "="), "E": ("=", "&|"), "S": ("&|", "&|")},
    "BMEWO": {"B": ("&|", "="), "M": ("=", "="), "E": ("=", "&|"), "W": ("&|", "&|")},
}  # fmt: skip


# Labels with the prefixes of IOE1 and IOE2 alone do not show which of the two they are, and the two contradict each other.
AMBIGUOUS = ("IOE1", "IOE2")


@functools.cache
def rules_of(scheme):
    """For every prefix of a scheme, its allowed neighbours as in `SCHEMES`; any for a label without a prefix.

    A scheme that is not in `SCHEMES` is named by its prefixes, such as "BIS". Words whose own prefix is missing have another:
    the last word that of words inside, these that of the first word, and a single word that of the first.
    """
    rules = SCHEMES.get(scheme)
    if rules is None:
        own = lambda letters: [letter for letter in letters if letter in scheme]  # noqa: E731
        inside = own("IM") or (own("B") if own("ELSUW") else [])
        first, last = own("B") or inside, own("EL") or inside
        # Without B, as in IOE2, the last word of an entity may also be its first.
        single = own("SUW") or own("B") or [*inside, *own("EL")]
        single = single if first else [*single, *own("EL")]
        edge = SAME_LABEL + OTHER
        rules = {
            letter: (
                SAME_ENTITY * (letter in (*inside, *last)) + edge * (letter in (*first, *single)),
                SAME_ENTITY * (letter in (*first, *inside)) + edge * (letter in (*last, *single)),
            )
            for letter in own("SUWELBIM")
        }
    return {**rules, "": (SAME_ENTITY + SAME_LABEL + OTHER,) * 2}


def check_scheme(name, labels):
    """The scheme; a ValueError if it is unknown or a tag does not belong to it."""
    if name not in SCHEMES and not (isinstance(name, str) and name and set(name) <= PREFIXES.keys()):
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, or prefixes such as BIS; got {name!r}.")
    notation = notation_of(labels) or "plain"
    allowed = () if notation == "plain" and name != "IO" else rules_of(name)
    alternatives = [tag for tag in labels if tag != OUTSIDE and prefix_of(canonical(tag, notation)) not in allowed]
    if alternatives:
        raise ValueError(f"scheme must have all the tags; {name!r} does not have the tag {alternatives[0]!r}.")
    return name


def recognised(labels, sentences=()):
    """The scheme of tags, inferred from the set of tags and, if several fit, from their order in sentences.

    From labels alone it is the scheme with exactly their prefixes; IOB1 if there is an I-x but no B-x. The one that sentences break
    least often may have more prefixes; in case of a tie, tags with an I-x but no E-x are IOE1, and otherwise the first of `SCHEMES`
    is chosen.

    Args:
        labels: all tags; some or all may have no prefix, if there is O.
        sentences: the tags of each sentence.

    Returns:
        A key of `SCHEMES`, or the prefixes if no scheme of this table has them, see `rules_of`; None for tags that do not describe
        entities, such as parts of speech.
    """
    notation = notation_of(labels)
    if notation is None:
        return None
    tags = {canonical(tag, notation) for tag in labels} - {OUTSIDE}
    prefixes = {prefix_of(tag) for tag in tags} - {""}
    if prefixes == {"B"}:
        prefixes = {"B", "I"}  # all entities have one word
    own = "".join(letter for letter in PREFIXES if letter in prefixes)
    exact = [name for name, scheme in SCHEMES.items() if prefixes == scheme.keys()]
    if not sentences:
        names = [name for name in exact if name not in AMBIGUOUS] or [own]
    else:
        names = [name for name, scheme in SCHEMES.items() if prefixes <= scheme.keys()] + ([] if exact else [own])
    rows = ([canonical(tag, notation) for tag in sentence] for sentence in sentences)
    pairs = Counter(pair for row in rows for pair in itertools.pairwise([OUTSIDE, *row, OUTSIDE]))
    kinds = {type_of(tag) for tag in tags if prefix_of(tag)}

    def rank(name):
        broken = sum(count for (before, tag), count in pairs.items() if not may_follow(name, before, tag))
        missing = any(_tag(prefix, kind) not in tags for kind in kinds for prefix in needed(name))
        return broken, name not in SCHEMES, missing

    return min(names, key=rank)


def needed(scheme):
    """The prefixes that every label of a scheme needs; others occur only between adjacent entities with the same label."""
    return [prefix for prefix, sides in rules_of(scheme).items() if prefix and SAME_LABEL not in sides]


def tags_for(scheme, kinds, seen=()):
    """The set of tags of a scheme for labels of entities: O, tags with the needed prefixes, and those in `seen`."""
    return {OUTSIDE, *seen, *(_tag(prefix, kind) for kind in kinds for prefix in needed(scheme))}


def all_labels(scheme, labels):
    """The labels and the further ones that their scheme needs, sorted with O first and by what they label."""
    if scheme is None:
        return tuple(sorted(labels, key=lambda label: (label != OUTSIDE, label)))
    notation = notation_of(labels)
    tags = {canonical(label, notation) for label in labels}
    tags = tags_for(scheme, {type_of(tag) for tag in tags - {OUTSIDE} if prefix_of(tag)}, tags)
    return tuple(written(tag, notation) for tag in sorted(tags, key=lambda tag: (tag != OUTSIDE, type_of(tag), tag)))


def may_follow(scheme, before, tag):
    """Whether a tag may follow another one; the ends of a sentence count as O."""
    right = OTHER if before == OUTSIDE else rules_of(scheme)[prefix_of(before)][1]
    left = OTHER if tag == OUTSIDE else rules_of(scheme)[prefix_of(tag)][0]
    if OUTSIDE in (before, tag) or type_of(before) != type_of(tag):
        return OTHER in right and OTHER in left
    return any(side in right and side in left for side in (SAME_ENTITY, SAME_LABEL))


def is_legal(scheme, tags):
    """Whether the tags of a sentence follow the rules of a scheme."""
    of_scheme = all(tag == OUTSIDE or prefix_of(tag) in rules_of(scheme) for tag in tags)
    return of_scheme and all(may_follow(scheme, *pair) for pair in itertools.pairwise([OUTSIDE, *tags, OUTSIDE]))


def tags_of_entities(scheme, entities, count):
    """The tags of a sentence from its entities; in IO, adjacent entities with the same label become one.

    Args:
        scheme: a key of `SCHEMES`.
        entities: `(label, first word, last word)`, in order.
        count: number of words in the sentence.

    Example:

    >>> tags_of_entities("IOB1", [("city", 0, 1), ("city", 2, 2)], 4)
    ['I-city', 'I-city', 'B-city', 'O']
    """
    tags = [OUTSIDE] * count
    entities = list(entities)
    for number, (kind, first, last) in enumerate(entities):
        before = entities[number - 1] if number else (None, -1, -2)
        after = entities[number + 1] if number + 1 < len(entities) else (None, count + 1, count)
        edges = [
            SAME_LABEL if adjacent else OTHER
            for adjacent in ((kind, first) == (before[0], before[2] + 1), (kind, last + 1) == after[:2])
        ]
        for word in range(first, last + 1):
            left, right = edges[0] if word == first else SAME_ENTITY, edges[1] if word == last else SAME_ENTITY
            tags[word] = _tag(_prefix(scheme, left, right), kind)
    return tags


def in_scheme(scheme, tags):
    """The tags of a sentence converted to a scheme, with the same entities; tags that follow its rules are unchanged."""
    return list(tags) if is_legal(scheme, tags) else tags_of_entities(scheme, entities_of(tags), len(tags))


def nearest_tag(scheme, tag, tags):
    """The tag if it is known; otherwise the known tag with the same meaning for an entity of one word, such as I-x for B-x in IOB1
    and IOE1, or -x for a label without prefixes."""
    if tag in tags or tag == OUTSIDE:
        return tag
    alternatives = [_tag(prefix, type_of(tag)) for prefix in needed(scheme)]
    alternatives = [*(alternatives if len(alternatives) == 1 else ()), f"-{type_of(tag)}"]
    return next((other for other in alternatives if other in tags), tag)


def _prefix(scheme, left, right):
    if scheme == "IO":
        return "I"
    return next(prefix for prefix, (lefts, rights) in rules_of(scheme).items() if left in lefts and right in rights) or "I"


def _tag(prefix, kind):
    return prefix if kind == "_" else f"{prefix}-{kind}"


# A label, the first word and the one after the last; in a text, characters instead of words.
Span = namedtuple("Span", ["label", "start", "end"])


def spans_of_tags(tags, scheme=None):
    """The entities that tags of any scheme describe; a scheme without prefixes for words inside must be given.

    Example:

    >>> [tuple(span) for span in spans_of_tags(["B-per", "I-per", "O", "I-loc", "B-loc"])]
    [('per', 0, 2), ('loc', 3, 4), ('loc', 4, 5)]
    """
    tags = tags if scheme is None else with_insides(tags, scheme)
    return [Span(kind, first, last + 1) for kind, first, last in entities_of(tags)]


def tags_of_spans(starts, ends, spans, scheme="IOB2"):
    """Tags of words from spans of characters.

    Args:
        starts, ends: first character of every word and the one after its last.
        spans: `(start, end, label)`, in characters.
        scheme: a key of `SCHEMES`, the scheme of the tags.

    Returns:
        A tag for each word: a word belongs to the span that contains most of its characters, or to the first of several such spans.

    Raises:
        ValueError: spans overlap, or all words of a span belong to other spans.
    """
    spans = sorted(spans)
    for (_, end_before, _), (start, end, label) in itertools.pairwise(spans):
        if start < end_before:
            raise ValueError(f"spans must not overlap; {(start, end, label)} begins within the previous one")
    owners = [_owner(first, last, spans) for first, last in zip(starts, ends, strict=True)]
    for span in spans:
        if span not in owners:
            raise ValueError(f"every span must have a word that belongs to no other; {span} has none")
    words = {span: [i for i, owner in enumerate(owners) if owner == span] for span in spans}
    return tags_of_entities(scheme, [(span[2], inside[0], inside[-1]) for span, inside in words.items()], len(owners))


def _owner(first, last, spans):
    """The span with most characters from `first` to `last`, the first of several such spans; None if no span has any."""
    shared = [min(end, last) - max(start, first) for start, end, _ in spans]
    most = max(shared, default=0)
    return spans[shared.index(most)] if most > 0 else None


def best_tags(log_probabilities, labels, scheme, transitions=None):
    """The best sequence of tags that a scheme allows.

        argmax Σ_i log p_i(tag_i)

    and for a conditional random field, with scores s instead of log p,

        argmax Σ_i s_i(tag_i) + begin[tag_1] + Σ_i next[tag_i-1, tag_i] + end[tag_n]

    Args:
        log_probabilities: `(words, labels)`, or unnormalised scores.
        labels: the tags.
        scheme: a key of `SCHEMES`; None if any tag may follow any other.
        transitions: scores of a `ConditionalRandomField`, `(labels + 2, labels)`: in row i and column j the score of tag j after
            tag i, then a row of scores of beginning with a tag, and one of ending with it; or None.

    Returns:
        The indices of the tags, `(words,)`; the best tag of each word independently if no sequence of these labels is allowed.
    """
    count = len(labels)
    scores = np.zeros((count + 2, count)) if transitions is None else np.array(transitions, "float64")
    scores[~_allowed(tuple(labels), scheme)] = -np.inf
    return viterbi(np.asarray(log_probabilities), scores)


@functools.lru_cache(maxsize=64)
def _allowed(labels, scheme):
    """Which tags may follow each other, begin and end a sequence, `(labels + 2, labels)` bool."""
    if scheme is None:
        return np.ones((len(labels) + 2, len(labels)), bool)
    rows = [[may_follow(scheme, before, tag) for tag in labels] for before in (*labels, OUTSIDE)]
    return np.array([*rows, [may_follow(scheme, tag, OUTSIDE) for tag in labels]])
