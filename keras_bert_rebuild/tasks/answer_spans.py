"""The best spans of a text from the logits of their first and last tokens."""

from collections import namedtuple

import numpy as np

# First character and the one after the last, and the sum of the logits of the first and last token.
ScoredSpan = namedtuple("ScoredSpan", ["start", "end", "score"])


def best_spans(start_logits, end_logits, offsets, may_start, may_end, count, max_tokens):
    """The spans of one window with the highest scores.

        score[i, j] = start_logits[i] + end_logits[j]        i ≤ j < i + max_tokens

    Every span is scored; `run_squad.py` scores only those between the 20 best starts and the 20 best ends.

    Args:
        start_logits, end_logits: `(length,)`.
        offsets: first character of every token and the one after its last, `(length, 2)`.
        may_start, may_end: the tokens that an answer may start and end with, `(length,)` bool.
        count: maximum number of spans to return.
        max_tokens: maximum number of tokens in a span.

    Returns:
        A list of at most `count` `ScoredSpan`s, the best first.

    Reference: Devlin et al., 2019, section 4.2 (https://arxiv.org/abs/1810.04805); `write_predictions` in `run_squad.py` of
    google-research/bert.
    """
    length = len(start_logits)
    starts = np.where(may_start, np.asarray(start_logits, "float64"), -np.inf)
    # No span may end after the last token.
    ends = np.concatenate([np.where(may_end, np.asarray(end_logits, "float64"), -np.inf), np.full(max_tokens, -np.inf)])
    scores = starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, max_tokens)[:length]
    best = np.argsort(-scores, axis=None, kind="stable")[:count]
    spans = []
    for index in best.tolist():
        first, last = divmod(index, max_tokens)
        if scores[first, last] > -np.inf:
            spans.append(ScoredSpan(int(offsets[first][0]), int(offsets[first + last][1]), float(scores[first, last])))
    return spans


def merge_spans(spans, count):
    """The best spans of several windows; of those with the same offsets, the one with the highest score.

    Args:
        spans: `ScoredSpan`s.
        count: maximum number of spans to return.
    """
    best = {}
    for span in spans:
        if span[:2] not in best or span.score > best[span[:2]].score:
            best[span[:2]] = span
    return sorted(best.values(), key=lambda span: (-span.score, span.start, span.end))[:count]


def span_of_tokens(offsets, chosen, start, end):
    """The first and last token that contain the characters from `start` to `end`; None if the window does not show all of them.

    Args:
        offsets: `(length, 2)`.
        chosen: the tokens of the text, which are consecutive, `(length,)` bool.
        start, end: first character and the one after the last.
    """
    touched = np.flatnonzero(chosen & (offsets[:, 0] < end) & (offsets[:, 1] > start))
    if not len(touched):
        return None
    text = np.flatnonzero(chosen)
    # At the edge of a window the answer may continue outside.
    cut_before = touched[0] == text[0] and offsets[touched[0], 0] > start
    cut_after = touched[-1] == text[-1] and offsets[touched[-1], 1] < end
    return None if cut_before or cut_after else (int(touched[0]), int(touched[-1]))
