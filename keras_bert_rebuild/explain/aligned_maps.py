"""Two models compared: their attention maps aligned where they tokenise a text differently, and how different heads are."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.explain.attention_maps import AttentionMaps


def same_tokens(first: AttentionMaps, second: AttentionMaps) -> bool:
    """Whether the tokens of two texts begin and end at the same characters, so that no alignment is needed."""
    for name in ("sentences", "offsets"):
        one, other = getattr(first, name), getattr(second, name)
        if one is None or other is None:
            return bool(first.tokens == second.tokens)
        if not np.array_equal(one, other):
            return False
    return True


def aligned_maps(first: AttentionMaps, second: AttentionMaps, texts: tuple) -> tuple[AttentionMaps, AttentionMaps]:
    """Both maps over common pieces of the text: the shortest pieces whose boundaries are token boundaries of both models.

    Attention to a piece is the sum over its tokens, attention from a piece the mean over its tokens, so that rows still sum to 1.
    Adjacent special tokens are one piece. Pieces have no queries and keys, so the result has no vectors.

    Args:
        first, second: maps of the same text, see `of_text`.
        texts: the text, and the second one or None.

    Returns:
        Two `AttentionMaps` with equal tokens, those of the text.

    Raises:
        ValueError: a tokenizer returns no character offsets, or the special tokens are in different places.

    Reference: attention between words from that between tokens, as in Clark et al., 2019, section 4.1
    (https://arxiv.org/abs/1906.04341).
    """
    if first.offsets is None or second.offsets is None or first.tokens is None:
        raise ValueError("two models with different tokens need tokenizers that return characters, as from load_tokenizer.")
    runs = [_runs(maps) for maps in (first, second)]
    if [side for side, _ in runs[0]] != [side for side, _ in runs[1]]:
        raise ValueError(
            "the two models must have special tokens in the same places, before, between and after the texts; they tokenise the "
            f"text as {_shown(first)} and {_shown(second)}."
        )
    pieces: tuple[list, list] = ([], [])
    tokens, sentences, offsets = [], [], []
    for (side, one), (_, other) in zip(*runs, strict=True):
        groups = [(one, other, (0, 0))] if side < 0 else _groups(one, other, first.offsets[0], second.offsets[0])
        for one_group, other_group, (begin, end) in groups:
            pieces[0].append(one_group)
            pieces[1].append(other_group)
            tokens.append("".join(first.tokens[0][i] for i in one_group) if side < 0 else texts[side][begin:end])
            sentences.append(side)
            offsets.append((begin, end))
    names = {"tokens": (tuple(tokens),), "sentences": np.array([sentences]), "offsets": np.array([offsets])}
    names["surfaces"] = (tuple("" if side < 0 else token for side, token in zip(sentences, tokens, strict=True)),)
    return tuple(_merged(maps, groups, names) for maps, groups in zip((first, second), pieces, strict=True))


def _runs(maps):
    """Consecutive tokens of one side, as pairs of the side and their indices."""
    runs: list = []
    for place, side in enumerate(maps.sentences[0].tolist()):
        if runs and runs[-1][0] == side:
            runs[-1][1].append(place)
        else:
            runs.append((side, [place]))
    return runs


def _groups(one, other, offsets, other_offsets):
    """Groups of token indices of both models and their common span of characters; groups end where tokens of both end."""
    tokens = [(*offsets[i].tolist(), 0, i) for i in one] + [(*other_offsets[i].tolist(), 1, i) for i in other]
    groups: list = []
    for begin, end, which, place in sorted(tokens, key=lambda token: (token[0], token[1])):
        # Tokens without characters join the previous group; tokens whose characters only one model has join the next.
        complete = groups and groups[-1][0] and groups[-1][1]
        if (complete and begin >= groups[-1][2][1] and end > begin) or not groups:
            groups.append(([], [], (begin, end)))
        groups[-1][which].append(place)
        first, last = groups[-1][2]
        groups[-1] = (*groups[-1][:2], (min(first, begin) if first < last else begin, max(last, end)))
    if not (groups[-1][0] and groups[-1][1]):  # both models have tokens, so there is a group before it
        *groups, last_but_one, last = groups
        span = (last_but_one[2][0], last[2][1])
        groups.append((last_but_one[0] + last[0], last_but_one[1] + last[1], span))
    return groups


def _merged(maps, groups, names):
    """Maps of groups of tokens: mean over queries, sum over keys."""
    member = np.zeros((len(groups), maps.ids.shape[1]), "float32")
    for group, places in enumerate(groups):
        member[group, places] = 1
    mean = member / member.sum(1, keepdims=True)
    first = [places[0] for places in groups]
    return replace(
        maps,
        probabilities=mean @ maps.probabilities @ member.T,
        ids=np.full((1, len(groups)), -1),
        mask=np.ones((1, len(groups)), bool),
        segments=maps.segments[:, first],
        words=None,
        queries=None,
        keys=None,
        values=None,
        inputs=None,
        outputs=None,
        terms=None,
        term_names=(),
        windows=(None,) * len(maps.layers),
        **names,
    )


def _shown(maps):
    shown = " ".join(token for token in maps.tokens[0])
    return f"{shown:.60}…" if len(shown) > 60 else shown


def attention_divergence(first: npt.ArrayLike, second: npt.ArrayLike) -> np.ndarray:
    """The mean Jensen-Shannon divergence of the rows of two stacks of attention maps, in bits.

        JSD(P, Q) = ½ KL(P ‖ M) + ½ KL(Q ‖ M),   M = ½ (P + Q)

    It is 0 if every query attends identically in both and 1 if they share no keys. Rows of zeros (queries without visible keys) are
    not counted.

    Args:
        first, second: probabilities `(..., query, key)` of the same shape.

    Returns:
        One value per map, `(...)`, in [0, 1]; 0 for maps without rows.

    Raises:
        ValueError: the shapes differ.

    Reference: Lin, 1991, "Divergence Measures Based on the Shannon Entropy", section IV; for attention heads: Clark et al., 2019,
    section 6 (https://arxiv.org/abs/1906.04341).
    """
    one, other = np.asarray(first, "float64"), np.asarray(second, "float64")
    if one.shape != other.shape or one.ndim < 2:
        raise ValueError(f"both maps must be (..., query, key) of the same shape; got {one.shape} and {other.shape}.")
    middle = (one + other) / 2
    rows = (_entropy(middle) - (_entropy(one) + _entropy(other)) / 2).clip(0, 1)
    counted = (one.sum(-1) > 0) & (other.sum(-1) > 0)
    return (rows * counted).sum(-1) / np.maximum(counted.sum(-1), 1)


def _entropy(shares):
    """−Σ p log2 p of every row."""
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(-1)
