"""The one format of tables, in which what is written reads back equal, and lines of JSON.

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
from keras_bert_rebuild.files.reading import check_depth, parse_json

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
    lines = read_lines(path) if delimiter == "\t" else io.StringIO(read_text(path), newline="")
    return [*cells_of(enumerate(lines, 1), path, delimiter)]


def cells_of(lines, path, delimiter):
    """Yield the rows of a table that are not blank, as `(line, cells)`.

    Args:
        lines: pairs of number and line; with its line end, unless cells are between tabs.
        path: the file, for errors.
        delimiter: as for `read_cells`, or a semicolon.

    Raises:
        ValueError: a cell is not quoted as in csv; the error names file and line.
    """
    if delimiter == "\t":
        yield from ((number, line.split("\t")) for number, line in lines if line.strip())
        return
    reader = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
    while True:
        line, longest = reader.line_num + 1, csv.field_size_limit(_LONGEST_CELL)
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"expected cells quoted as in csv; {location(path, line)} is not: {error}.") from None
        finally:
            csv.field_size_limit(longest)
        if any(cell.strip() for cell in cells):
            yield line, cells


def delimiter_of(line):
    """What is between the cells of a .csv file: `;` where spreadsheets take the comma for decimals, from its first line."""
    unquoted = re.sub('"[^"]*"', "", line)
    return ";" if ";" in unquoted and "," not in unquoted else ","


def json_objects(lines, path):
    """Yield the objects of a .jsonl file, one on every line that is not blank, as `(line, object)`.

    Args:
        lines: pairs of number and line.
        path: the file, for errors.

    Raises:
        ValueError: a line has something else; the error names file and line.
    """
    for number, line in lines:
        if not line.strip():
            continue
        where = location(path, number)
        try:
            value = json.loads(line)
            check_depth(value, where)
        except json.JSONDecodeError as error:
            raise ValueError(f"expected a JSON object; {where} is not one, at character {error.colno}: {error.msg}.") from None
        except RecursionError:
            raise ValueError(f"expected a JSON object; {where} is nested too deeply.") from None
        except ValueError as error:  # an integer with thousands of digits
            raise ValueError(f"expected a JSON object; {where} is not one: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object; got {line!r:.60} in {where}.")
        yield number, value


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
