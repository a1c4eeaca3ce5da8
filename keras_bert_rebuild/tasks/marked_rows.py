"""Rows for late interaction: a marker after the class token, queries padded with masks, and which tokens are compared."""

from collections import namedtuple

import numpy as np

# Token ids, segments, 1 where the encoder attends to a token, and 1 where its vector is compared; arrays of one length.
MarkedRow = namedtuple("MarkedRow", ["ids", "segments", "attended", "scored"])


class MarkedRows:
    """Converts texts to rows.

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
        """The settings as plain values, arguments of `MarkedRows.of_settings`."""
        return {
            "length": self.length,
            "marker": self.marker,
            "prompt": self.prompt,
            "expanded": self.expanded,
            "attended": self.attended,
            "skipped": self.skipped.tolist(),
        }

    @classmethod
    def of_settings(cls, tokenizer, marker, prompt, **settings):
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
