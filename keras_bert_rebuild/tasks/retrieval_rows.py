"""Rows of queries and texts: for late interaction with a marker and masks, and for a reranker joined from those of other pairs."""

from collections import namedtuple

import numpy as np

# Token ids, segments, 1 where the encoder attends to a token, and 1 where its vector is compared; arrays of one length.
MarkedRow = namedtuple("MarkedRow", ["ids", "segments", "attended", "scored"])


class MarkedRows:
    """Converts texts to rows for late interaction: with a marker after the class token, and queries padded with masks.

    Args:
        tokenizer: a `BatchTokenizer`.
        length: maximum number of tokens in a row.
        prefix: a text before every text. If its first word is a token of the vocabulary, such as "[Q]" or "[unused0]", that token
            comes after the class token; the rest is put before the text.
        expanded: pad rows to the length with mask tokens, whose vectors are compared.
        attended: whether the encoder attends to these masks.
        skipped: ids of tokens whose vectors are not compared.
    """

    def __init__(self, tokenizer, length, prefix="", expanded=False, attended=False, skipped=()):
        self.tokenizer, self.length, self.expanded, self.attended = tokenizer, length, expanded, attended
        first, _, rest = prefix.strip().partition(" ")
        marker = tokenizer.vocabulary.get(prefix, tokenizer.vocabulary.get(first)) if first else None
        self.marker = [] if marker is None else [marker]
        self.prompt = prefix if marker is None else f"{rest} " if rest else ""
        self.skipped = np.array(sorted(skipped), "int32")

    def settings(self):
        """The settings as plain values, arguments of `MarkedRows.from_settings`."""
        return {
            "length": self.length,
            "marker": self.marker,
            "prompt": self.prompt,
            "expanded": self.expanded,
            "attended": self.attended,
            "skipped": self.skipped.tolist(),
        }

    @classmethod
    def from_settings(cls, tokenizer, marker, prompt, **settings):
        """A `MarkedRows` from a tokenizer and its `settings`."""
        rows = cls(tokenizer, **settings)
        rows.marker, rows.prompt = list(marker), prompt
        return rows

    def __call__(self, texts):
        """The `MarkedRow`s of a list of texts."""
        encoded = self.tokenizer.encode_batch([self.prompt + text for text in texts], max_len=self.length - len(self.marker))
        return [self._row(ids, segments) for ids, segments in zip(encoded.ids, encoded.segments, strict=True)]

    def _row(self, ids, segments):
        at = 0 if self.tokenizer.cls_last else 1
        ids = np.concatenate([ids[:at], np.array(self.marker, ids.dtype), ids[at:]])
        segments = np.concatenate([segments[:at], segments[at : at + 1].repeat(len(self.marker)), segments[at:]])
        tokens = len(ids)
        if self.expanded and tokens < self.length:
            more = self.length - tokens
            ids = np.append(ids, np.full(more, self.tokenizer.mask_id, ids.dtype))
            segments = np.append(segments, segments[:1].repeat(more))
        attended = np.ones(len(ids), "int32")
        if not self.attended:
            attended[tokens:] = 0
        return MarkedRow(ids, segments, attended, (~np.isin(ids, self.skipped)).astype("int32"))


class PairRows:
    """A row of every pair of a query and a text, split into the tokens of the query and those of the text.

    Rows of other pairs are joined from these parts, so that nothing is tokenised again.

    Args:
        windows: the `Windows` of pairs; each pair has at least one row.
        max_len: maximum number of tokens in a row.
        truncation_side: the end at which a text that is too long is cut: of a pair with several rows the first is taken, or with
            "left" the last.
    """

    def __init__(self, windows, max_len, truncation_side="right"):
        self._from_left = truncation_side == "left"
        selected = np.diff(windows.examples, append=-1) if self._from_left else np.diff(windows.examples, prepend=-1)
        rows = np.flatnonzero(selected)
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
