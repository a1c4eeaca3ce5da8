"""Rows of a query and a text, joined from the rows of other pairs, which avoids tokenising them again."""

import numpy as np


class PairRows:
    """A row of every pair of a query and a text, split into the tokens of the query and those of the text.

    Args:
        windows: the `Windows` of pairs; each pair has at least one row.
        max_len: maximum number of tokens in a row.
        truncation_side: the end at which a text that is too long is cut: of a pair with several rows the first is taken, or with
            "left" the last.
    """

    def __init__(self, windows, max_len, truncation_side="right"):
        self._from_left = truncation_side == "left"
        chosen = np.diff(windows.examples, append=-1) if self._from_left else np.diff(windows.examples, prepend=-1)
        rows = np.flatnonzero(chosen)
        sides = [windows.sides[row] for row in rows]
        # Special tokens after the text, as in every pair: [SEP] in BERT.
        self._after = next((len(row) - int(np.flatnonzero(row == 1)[-1]) - 1 for row in sides if (row == 1).any()), 1)
        cuts = [int(np.flatnonzero(row == 1)[0]) if (row == 1).any() else len(row) - self._after for row in sides]
        parts = windows.ids, windows.segments
        self._queries = [[values[row][:cut] for row, cut in zip(rows, cuts, strict=True)] for values in parts]
        self._texts = [[values[row][cut:] for row, cut in zip(rows, cuts, strict=True)] for values in parts]
        self._query_sizes = np.array(cuts, "int64")
        self._text_sizes = np.array([len(text) for text in self._texts[0]], "int64")
        self.max_len = max_len
        self.longest = min(int(self._query_sizes.max() + self._text_sizes.max()), max_len)

    def lengths(self, queries, texts):
        """The numbers of tokens in rows of the query of one pair and the text of another, given by their indices, `(rows,)`."""
        return np.minimum(self._query_sizes[queries] + self._text_sizes[texts], self.max_len)

    def joined(self, queries, texts):
        """The ids and segments of such rows, lists of arrays; texts that are too long are truncated."""
        return [
            [self._row(part[query], text_part[text]) for query, text in zip(queries, texts, strict=True)]
            for part, text_part in zip(self._queries, self._texts, strict=True)
        ]

    def _row(self, query, text):
        excess = len(query) + len(text) - self.max_len
        if excess > 0 and self._from_left:
            text = text[excess:]
        elif excess > 0:
            text = np.concatenate([text[: len(text) - self._after - excess], text[len(text) - self._after :]])
        return np.concatenate([query, text])
