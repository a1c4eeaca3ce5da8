"""Segments of a corpus laid out as rows of token ids."""

import numpy as np


def lay_out(store, segments, seq_len, tables, pairs=True):
    """Put segments between special tokens: `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` for single segments.

    Args:
        store: a corpus.
        segments: `Segments` that fit.
        seq_len: length of the rows.
        tables: the `VocabularyTables` of the corpus.
        pairs: whether there are second segments.

    Returns:
        Token ids, int32; segments, 1 at the second segment and its `[SEP]`, int32; and True at tokens of the corpus: all
        `(examples, seq_len)`.
    """
    columns = np.arange(seq_len)
    first_end = segments.first_lengths[:, None] + 1  # the column of the [SEP]
    last_end = first_end + 1 + segments.second_lengths[:, None] if pairs else first_end
    after_first = columns > first_end
    content = (columns < last_end) & (columns != first_end)
    content[:, 0] = False
    first_shift, second_shift = segments.first_starts[:, None] - 1, segments.second_starts[:, None] - first_end - 1
    positions = columns + np.where(after_first, second_shift, first_shift)
    ids = np.full(content.shape, tables.pad_id, "int32")
    ids[content] = store.ids_at(positions[content])
    ids[:, 0] = tables.cls_id
    for end in (first_end, last_end):
        np.put_along_axis(ids, end, tables.sep_id, axis=1)
    return ids, (after_first & (columns <= last_end)).astype("int32"), content
