"""The similarity of depths as a table in a terminal."""

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from keras_bert_rebuild.interpret.lens_table import spread

# Width in characters of the names of rows, and of a column.
FIRST, COLUMN = 12, 6


def similarity_table(similarity, width=80):
    """A table of the CKA of all pairs of depths; if it does not fit, of some depths, evenly spread.

    Args:
        similarity: a `BlockSimilarity`.
        width: characters per line.
    """
    columns = spread(len(similarity.other_depths), max(2, (width - FIRST) // COLUMN))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
    table.add_column("")
    for column in columns:
        table.add_column(
            "emb." if not column else similarity.other_depths[column].rpartition(" ")[2], justify="right", no_wrap=True
        )
    for name, row in zip(similarity.depths, similarity.values, strict=True):
        cells = [Text("?" if np.isnan(row[column]) else f"{row[column]:.2f}", _style(row[column])) for column in columns]
        table.add_row(name, *cells)
    return table


def _style(value):
    return "bold cyan" if value >= 0.9 else "cyan" if value >= 0.6 else "" if value >= 0.3 else "dim"
