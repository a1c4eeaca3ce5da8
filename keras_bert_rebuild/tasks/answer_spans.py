"""The best spans of a text from the logits of their first and last tokens."""

from collections import namedtuple

import numpy as np

# First character and the one behind the last, and the sum of the logits of first and last token.
ScoredSpan = namedtuple("ScoredSpan", ["start", "end", "score"])


def best_spans(start_logits, end_logits, offsets, may_start, may_end, count, max_tokens):
    """The spans of one window with the highest scores.

        score[i, j] = start_logits[i] + end_logits[j]        i ≤ j < i + max_tokens

    Every span is looked at, where `run_squad.py` looks at those of the 20 best starts and the 20 best ends.

    Args:
        start_logits, end_logits: `(length,)`.
        offsets: first character of every token and the one behind its last, `(length, 2)`.
        may_start, may_end: the tokens that an answer may begin and end with, `(length,)` bool.
        count: spans to give.
        max_tokens: tokens of a span at the most.

    Returns:
        A list of `ScoredSpan`, the best first, fewer where there are not as many.

    Reference: Devlin et al., 2019, section 4.2 (https://arxiv.org/abs/1810.04805); `write_predictions` in `run_squad.py` of
    google-research/bert.
    """
    length = len(start_logits)
    starts = np.where(may_start, np.asarray(start_logits, "float64"), -np.inf)
    # Behind the last token there are none that may end.
    ends = np.concatenate([np.where(may_end, np.asarray(end_logits, "float64"), -np.inf), np.full(max_tokens, -np.inf)])
    scores = starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, max_tokens)[:length]
    best = np.argsort(-scores, axis=None, kind="stable")[:count]
    spans = []
    for place in best.tolist():
        first, last = divmod(place, max_tokens)
        if scores[first, last] > -np.inf:
            spans.append(ScoredSpan(int(offsets[first][0]), int(offsets[first + last][1]), float(scores[first, last])))
    return spans


def merge_spans(spans, count):
    """The best spans of several windows: of those at the same place the one with the highest score.

    Args:
        spans: `ScoredSpan`s.
        count: spans to give.
    """
    best = {}
    for span in spans:
        if span[:2] not in best or span.score > best[span[:2]].score:
            best[span[:2]] = span
    return sorted(best.values(), key=lambda span: (-span.score, span.start, span.end))[:count]


def span_of_tokens(offsets, chosen, start, end):
    """The first and last token that characters from `start` to `end` lie in; None where not all of them are shown.

    Args:
        offsets: `(length, 2)`.
        chosen: the tokens of the text, `(length,)` bool, one behind the other.
        start, end: first character and the one behind the last.
    """
    touched = np.flatnonzero(chosen & (offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not len(touched):
        return None
    text = np.flatnonzero(chosen)
    # At the edge of a window the answer may go on outside.
    cut_before = touched[0] == text[0] and offsets[touched[0], 0] > start
    cut_behind = touched[-1] == text[-1] and offsets[touched[-1], 1] < end
    return None if cut_before or cut_behind else (int(touched[0]), int(touched[-1]))
