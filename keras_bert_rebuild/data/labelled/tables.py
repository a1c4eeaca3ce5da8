"""The one format of tables: what is written reads back equal.

The cells of a .csv file are quoted where they must be; those of a .tsv file never are, and a quotation mark in them is text. A
column with lists, or with texts that such cells cannot hold (with a tab in a .tsv file), has JSON values in its cells, and its name
ends in `:json`.
"""

import csv
import io
import json
import re

from keras_bert_rebuild.data.text_files import location, read_lines, read_text
from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.files.reading import parse_json

JSON = ":json"
# What a cell cannot hold: in a .tsv file tabs and line ends, in both lone surrogates, which UTF-8 does not have.
_NOT_HELD = {"\t": re.compile("[\t\r\n\ud800-\udfff]"), ",": re.compile("[\ud800-\udfff]")}
_QUOTED = re.compile('[",\r\n]')
# Longer than any text; the csv module's own limit is 131,072 characters.
_LONGEST_CELL = limit("cell_characters")


def read_cells(path, delimiter):
    """The rows of a table that are not blank, as `(line, cells)`, all cells as text.

    Args:
        path: the file.
        delimiter: a tab, for cells without quoting, or a comma, for cells that may be quoted.

    Raises:
        ValueError: the file is not text in UTF-8, or a cell is not quoted as in csv; the error names file and line.
    """
    if delimiter == "\t":
        return [(number, line.split("\t")) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    longest = csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    rows, line = [], 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"expected cells quoted as in csv; {location(path, line)} is not: {error}.") from None
    finally:
        csv.field_size_limit(longest)
    return rows


def column_names(cells):
    """The names of columns in the cells of the first row: without `:json`, and without white space around them."""
    names = (cell.strip() for cell in cells)
    return [_name_of_json(name.removesuffix(JSON)) if name.endswith(JSON) else name for name in names]


def decoded_rows(first, rows, path):
    """Rows in which the cells of JSON columns are values.

    Args:
        first: the cells of the first row, which has the names.
        rows: the others, `(line, cells)`, as many cells in each.
        path: the file, for errors.

    Raises:
        ValueError: a cell of such a column is not JSON; the error names file and line.
    """
    encoded = [cell.strip().endswith(JSON) for cell in first]
    if not any(encoded):
        return rows
    return [
        (line, [parse_json(cell, location(path, line)) if is_json else cell for cell, is_json in zip(cells, encoded, strict=True)])
        for line, cells in rows
    ]


def write_table(file, rows, delimiter):
    """Write dictionaries as a table with a header.

    Args:
        file: a text file in UTF-8 that does not change line ends.
        rows: dictionaries of what JSON has. What a row lacks counts as None, and a column with nothing else is left out.
        delimiter: a tab or a comma.
    """
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    names, columns = list(columns), list(columns.values())
    encoded = [
        name.endswith(JSON) or not _plain(values, delimiter) or _odd(name) for name, values in zip(names, columns, strict=True)
    ]
    # The reader skips blank rows.
    if names and not any(encoded) and any(not "".join(map(_shown, cells)).strip() for cells in zip(*columns, strict=True)):
        encoded[0] = True
    header = [
        f"{json.dumps(name) if _odd(name) else name}{JSON}" if is_json else name
        for name, is_json in zip(names, encoded, strict=True)
    ]
    written = [
        [_json(value) for value in values] if is_json else map(_shown, values)
        for values, is_json in zip(columns, encoded, strict=True)
    ]
    for cells in [header, *zip(*written, strict=True)]:
        file.write(delimiter.join(cells if delimiter == "\t" else map(_quoted, cells)) + "\n")


def _plain(values, delimiter):
    """Whether cells hold these values: all are texts, or all are numbers or None."""
    if all(isinstance(value, str) for value in values):
        return not any(_NOT_HELD[delimiter].search(value) for value in values)
    return all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)


def _odd(name):
    """Whether a name must be quoted, since the reader removes white space around names, and a byte order mark."""
    return not name or name != name.strip() or not name.isprintable() or name.startswith('"')


def _shown(value):
    return "" if value is None else str(value)


def _json(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")


def _quoted(cell):
    return '"{}"'.format(cell.replace('"', '""')) if _QUOTED.search(cell) else cell


def _name_of_json(name):
    try:
        return str(json.loads(name)) if name.startswith('"') else name
    except ValueError:
        return name
