"""Which columns of a table are which parts of an example: as given, by their usual names, or by their order."""

from keras_bert_rebuild.data.labelled.example_kinds import COLUMNS_OF_LISTS, LISTS


def find_columns(table, kind, columns=None, labelled=True):
    """The columns of a table that have the parts of its examples.

    Args:
        table: a `Table`.
        kind: a `Kind`.
        columns: part to the name of its column, or its number from 1; several for a part that is a list. Other parts have the usual
            names of the kind; if columns have no names, their order says what they are.
        labelled: whether there must be a column for the target.

    Returns:
        Part to the name of its column, or for a list in several columns to their names.

    Raises:
        ValueError: a column does not exist, a part has none, or one has several that it could be.
    """
    by_part = {part: [_name_of(name, table) for name in listed(names)] for part, names in (columns or {}).items()}
    if not table.named and not by_part:
        return _by_order(table, kind)
    taken = {name for names in by_part.values() for name in names}
    left = [name for name in table.names if name not in taken] if table.named else []
    usual = usual_names(kind, left, without=by_part)
    for part in kind.columns:
        if part not in usual and part not in by_part and (several := list_columns(part, left)):
            usual[part] = several
    parts = {**usual, **{part: names if part in LISTS else names[0] for part, names in by_part.items()}}
    _check_needed(parts, kind, labelled, table)
    _check_single(parts, kind, labelled, table, by_part)
    return parts


def list_of_columns(part, row, names, where):
    """The list that is in several columns of a row; an empty cell is not a part of it."""
    values, empty = [], None
    for name in names:
        if row.get(name) in ("", None):
            empty = len(values)
        elif empty is not None and part == "choices":  # the label is the index of a column
            raise ValueError(f"expected the empty choices after the others; choice {empty} is empty in {where}.")
        else:
            values += listed(row[name])
    return values if values or part == "choices" else None


def are_names(names, kind):
    """Whether the cells of a first row are names of parts of such examples."""
    parts = set(usual_names(kind, names)) | {part for part in kind.columns if list_columns(part, names)}
    return bool(parts) and parts.issuperset(kind.required)


def usual_names(kind, names, without=()):
    """Part to the one of the names that is usual for it, whatever its case; a name of two parts belongs to the first."""
    lower, usual = {}, {}
    for name in names:
        lower.setdefault(str(name).lower(), name)
    for part, of_part in kind.columns.items():
        name = next((name for name in of_part if name in lower and lower[name] not in usual.values()), None)
        if part not in without and name is not None:
            usual[part] = lower[name]
    return usual


def list_columns(part, names):
    """The names of columns that together are a part, such as choice0, choice1."""
    return [name for name in names if part in LISTS and COLUMNS_OF_LISTS[part].fullmatch(str(name))]


def listed(names):
    """A name or several as a list."""
    return list(names) if isinstance(names, (list, tuple)) else [names]


def is_number(name):
    """Whether a column is given by its number."""
    return isinstance(name, int) or (isinstance(name, str) and name.isdecimal())


def check_parts(columns, kind):
    """Refuse columns of parts that such examples do not have, and several columns for a part that is not a list."""
    unknown = [part for part in columns if part not in kind.columns]
    if unknown:
        raise ValueError(f"columns must be among {', '.join(kind.columns)}; got {', '.join(map(str, unknown))}.")
    for part, names in columns.items():
        if part not in LISTS and isinstance(names, (list, tuple)):
            raise ValueError(f"columns must name a single column for {part}; got {', '.join(map(str, names))}.")


def _name_of(name, table):
    """The name of a column given by its name or its number."""
    if table.named and name in table.names:
        return name
    if not is_number(name):
        raise ValueError(f"expected a column named {name}; {table.source} has {table.listed}.")
    if not 1 <= int(name) <= len(table.names):
        raise ValueError(f"expected the number of a column from 1 to {len(table.names)}; got {name} for {table.source}.")
    return table.names[int(name) - 1]


def _by_order(table, kind):
    parts = kind.by_width.get(len(table.names))
    if parts is None:
        usual = " or ".join(", ".join(parts) for parts in kind.by_width.values()) or "names of columns"
        raise ValueError(f"expected {usual} unless columns are named; {table.source} has {table.listed}.")
    return dict(zip(parts, table.names, strict=True))


def _needed(kind, labelled):
    return (*kind.required, *((kind.target,) if labelled and kind.target else ()))


def _check_needed(parts, kind, labelled, table):
    for part in _needed(kind, labelled):
        if part not in parts:
            names = ", ".join(kind.columns[part])
            usual = f"one of {names}, or named in columns"
            raise ValueError(f"expected a column for {part} ({usual}); {table.source} has {table.listed}.")


def _check_single(parts, kind, labelled, table, by_part):
    """Refuse a second column that a needed part could be, unless the part is given or has its first usual name."""
    used = {name for names in parts.values() for name in listed(names)}
    left = {str(name).lower(): name for name in table.names if name not in used}
    for part in _needed(kind, labelled) if table.named else ():
        name, candidates = parts[part], [left[name] for name in kind.columns[part] if name in left]
        if part not in by_part and candidates and str(name).lower() != kind.columns[part][0]:
            both = f"{table.source} has {name} and {' and '.join(map(str, candidates))}"
            raise ValueError(f"expected one column for {part}; {both}: name one in columns, such as {part}={name}.")
