"""Foreign arrays by name into the variables of a model, and back: everything is transferred, or every problem is reported."""

import difflib
import warnings
from collections import namedtuple
from dataclasses import dataclass, field

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.loaded_values import fit_positions
from keras_bert_rebuild.checkpoints.table import layout_of, slice_of
from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.kernels import handed_over


@dataclass
class LoadReport:
    """What happened to every variable of the model and every name of the file; prints as a table."""

    source: str = ""
    """The file or folder and its format."""

    folder: str = field(default="", repr=False)
    """The folder of the file, which has the tokenizer's files, too; not printed."""

    loaded: list = field(default_factory=list)
    """`(path, name, shape)` of each loaded variable, with the array it was loaded from."""

    missing: list = field(default_factory=list)
    """`(path, reason)` of the variables that keep their initial values; empty after a strict load."""

    unused: list = field(default_factory=list)
    """Names of the file that were not used: heads not requested, and unknown names."""

    reshaped: list = field(default_factory=list)
    """`(path, their shape, our shape)` of position tables that were shortened or extended."""

    ignored: list = field(default_factory=list)
    """Names of the file that are not weights, such as optimizer slots."""

    tokenizer_files: dict = field(default_factory=dict, repr=False)
    """The tokenizer files next to the weights, name to bytes; not printed."""

    base: dict = field(default_factory=dict, repr=False)
    """What the card of a model made from this one says of it: see `card_files.base_of`; not printed."""

    head: str = ""
    """What became of the trained head of a model that another model was made from."""

    def __str__(self):
        counts = ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in ("loaded", "missing", "unused", "reshaped", "ignored"))
        rows = [("loaded", path, f"{name} {shape}") for path, name, shape in self.loaded]
        rows += [("missing", path, why) for path, why in self.missing]
        rows += [("unused", "", name) for name in self.unused]
        rows += [("reshaped", path, f"{theirs} → {ours}") for path, theirs, ours in self.reshaped]
        rows += [("ignored", "", name) for name in self.ignored]
        widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
        lines = [f"{kind:<{widths[0]}}  {path:<{widths[1]}}  {rest}" for kind, path, rest in rows]
        return "\n".join([f"{self.source}: {counts}", *lines])


FLOATS = ("float16", "bfloat16", "float32", "float64")

# Where a variable is loaded from: a row, the name of the array in the file, and the variable's `ArraySlice` of the array.
_Origin = namedtuple("_Origin", ["row", "name", "slice"])


def load_variables(
    variables,
    source,
    table,
    rows,
    *,
    aliases=(),
    strict=True,
    optional=(),
    leftovers=False,
    position_offset=0,
    extend_positions=None,
    where="the checkpoint",
):
    """Load variables from a file.

    Everything that names and shapes can show is checked before the first variable is changed.

    Args:
        variables: the variables to load.
        source: the file, with `names`, `shape(name)`, `dtype(name)` and `read(name)`.
        table: the `NameTable` of its format.
        rows: the table's rows for the model; names that only occur in other rows may remain unused.
        aliases: rows for variables that none of `rows` finds in the file.
        strict: whether missing arrays, different shapes and unused names of the encoder are errors. If not, they are skipped and
            reported.
        optional: paths that keep their values if the file lacks them.
        leftovers: whether names of the encoder may remain unused even if `strict`.
        position_offset, extend_positions: see `fit_positions`; a shorter position table takes the first rows.
        where: the file, for errors.

    Returns:
        A `LoadReport`.

    Raises:
        ValueError: lists every problem.
    """
    names, problems = _canonical_names(source, table, {row.name for row in (*rows, *aliases)})
    report = LoadReport()
    by_path = _by_path(rows)
    for path, instead in _by_path(aliases).items():
        if not any(row.name in names for row in by_path.get(path, ())):
            by_path[path] = [*by_path.get(path, ()), *instead]
    shapes = {variable.path: tuple(variable.shape) for variable in variables}
    fills, row_names = {}, set()  # array to the variables it fills, so that it is read once
    for variable in variables:
        found = [row for row in by_path.get(variable.path, ()) if row.name in names]
        row_names.update(row.name for row in by_path.get(variable.path, ()))
        if not found:
            if variable.path not in optional:
                report.missing.append((variable.path, _why_missing(variable.path, by_path, names)))
            continue
        problem = _parts_problem(found, shapes)
        if not problem:
            origin, *aliases = (_Origin(row, names[row.name], slice_of(row, shapes)) for row in found)
            problem = _shape_problem(origin, aliases, source, position_offset, extend_positions)
        if problem:
            report.missing.append((variable.path, problem))
        else:
            fills.setdefault(origin.name, []).append((variable, origin))
    report.ignored = sorted(actual for name, actual in names.items() if name not in row_names and table.is_ignored(name))
    report.unused = sorted(actual for name, actual in names.items() if name not in row_names and not table.is_ignored(name))
    problems += [f"{path}: {why}" for path, why in report.missing]
    if not leftovers:
        problems += [f"{printable(name)}: the model has no variable for it" for name in report.unused if table.is_of_encoder(name)]
    if problems and strict:
        raise ValueError(f"{printable(where)} does not fit the model:\n  " + "\n  ".join(problems))
    for name, filled in fills.items():
        _fill(name, filled, source, report, position_offset, extend_positions)
    return report


def arrays_to_write(variables, rows):
    """The arrays of a model under their foreign names, one at a time.

    Args:
        variables: the variables.
        rows: the table's rows for the model.

    Returns:
        An iterator of `(name, array)`.

    Raises:
        ValueError: lists every variable for which the format has no name.
    """
    by_path = {row.path: row for row in reversed(rows) if row.use != "read"}
    variables = {variable.path: variable for variable in variables}
    nameless = [path for path in variables if path not in by_path]
    written = [by_path[path] for path in variables if path in by_path]
    nameless += [f"{row.path} without {other}" for row in written for other in row.paths if other not in variables]
    if nameless:
        raise ValueError("the format has no name for:\n  " + "\n  ".join(nameless))
    for row in written:
        first, *others = row.paths or [row.path]
        if row.path != first:  # written together with the first
            continue
        array = to_numpy(variables[first])
        if others:
            array = np.concatenate([array, *(to_numpy(variables[path]) for path in others)], axis=-1)
        yield row.name, np.ascontiguousarray(layout_of(row.layout).to_theirs(array))


def to_numpy(variable):
    """The value of a variable as a NumPy array."""
    return keras.ops.convert_to_numpy(variable.value)


def _by_path(rows):
    found = {}
    for row in rows:
        found.setdefault(row.path, []).append(row)
    return found


def _canonical_names(source, table, known):
    """The names of the file by their spelling in the table, and a problem for each spelling that occurs twice."""
    names, problems = {}, []
    for actual in source.names:
        name = table.canonical(actual, known)
        if name in names:
            problems.append(f"{printable(name)}: the file has it twice, as {printable(names[name])} and as {printable(actual)}")
        names[name] = actual
    return names, problems


def _why_missing(path, by_path, names):
    if path not in by_path:
        return "the format has no name for it"
    name = by_path[path][0].name
    near = difflib.get_close_matches(name, names, n=2)
    return f"{name} is missing" + (f"; there is {' and '.join(map(printable, near))}" if near else "")


def _parts_problem(rows, shapes):
    """The first variable in the arrays of these rows that the model lacks, as a problem; None if it has all."""
    for row in rows:
        absent = [path for path in row.paths if path not in shapes]
        if absent:
            return f"{row.name} also holds {absent[0]}, which the model does not have"
    return None


def _shape_problem(origin, aliases, source, offset, extend):
    """What is wrong with the name, shape or dtype of an array; None if nothing."""
    row, name, (ours, _) = origin
    theirs, dtype = tuple(source.shape(name)), source.dtype(name)
    if dtype not in FLOATS:
        return f"expected floats; {printable(name)} has {printable(dtype)}"
    if not layout_of(row.layout).fits(theirs, ours):
        return (
            f"expected shape {layout_of(row.layout).to_theirs(np.empty(ours)).shape}; {name} has {theirs}"
            if layout_of(row.layout).to_theirs
            else f"expected as many values as {ours} has; {name} has {theirs}"
        )
    if row.layout == "positions" and ours[0] > theirs[0] and extend is None:
        return f"expected {ours[0] - offset} positions; {name} has {theirs[0] - offset}: choose extend_positions to extend them"
    for alias in aliases:
        if not _same(origin, alias, source):
            return f"{alias.name} differs from {name}; the model has one variable for both"
    return None


def _same(origin, alias, source):
    """Whether two arrays give a variable equal values."""
    fits = layout_of(alias.row.layout).fits(tuple(source.shape(alias.name)), alias.slice.shape)
    return fits and np.array_equal(*(_as_ours(each, source.read(each.name)) for each in (origin, alias)))


def _as_ours(origin, array):
    """The value of a variable from a foreign array, before a position table is shortened or extended."""
    array = layout_of(origin.row.layout).to_ours(array, origin.slice.shape)
    return array if origin.slice.span is None else array[..., origin.slice.span]


def _fill(name, filled, source, report, offset, extend):
    """Read an array and load its variables."""
    read = source.read(name)
    for variable, origin in filled:
        array, shape = _as_ours(origin, read), tuple(variable.shape)
        if not all_finite(array):
            warnings.warn(f"{name} has non-finite values; {variable.path} now has them too.", stacklevel=4)
        if origin.row.layout == "positions" and array.shape != shape:
            report.reshaped.append((variable.path, tuple(array.shape), shape))
            array = fit_positions(array, shape[0], offset, extend)
        if array.dtype.name not in ("float32", "float64", "float16"):  # bfloat16: not every backend accepts it from NumPy
            array = array.astype("float32")
        variable.assign(handed_over(array))
        report.loaded.append((variable.path, name, tuple(source.shape(name))))
