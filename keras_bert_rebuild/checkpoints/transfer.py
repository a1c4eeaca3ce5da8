"""Arrays by foreign name into the variables of a model, and back: all of it or a list of all that is wrong."""

import difflib
import math
import warnings
from collections import namedtuple

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.backend_values import handed_over
from keras_bert_rebuild.checkpoints.layouts import LAYOUTS
from keras_bert_rebuild.checkpoints.positions import fit_positions
from keras_bert_rebuild.checkpoints.report import LoadReport
from keras_bert_rebuild.files.printable import printable

FLOATS = ("float16", "bfloat16", "float32", "float64")

# A variable, the row it is filled from, the name in the file, and the further names that must hold the same.
_Step = namedtuple("_Step", ["variable", "row", "name", "aliases"])


def load_variables(
    variables, source, table, rows, *, strict=True, optional=(), leftovers=False, position_offset=0, extend_positions=None
):
    """Fill variables from a file.

    Everything that can be told from names and shapes is told before the first variable is changed.

    Args:
        variables: the variables to fill.
        source: the file, with `names`, `shape(name)`, `dtype(name)` and `read(name)`.
        table: the `NameTable` of its format.
        rows: the rows of the table for the model; names that only other rows have may be left over.
        strict: whether a variable without its array, an array of another shape and a name of the encoder that nothing takes are an
            error. Else they are left out and reported.
        optional: paths that keep their values where the file does not know them.
        leftovers: whether names of the encoder may be left over after all.
        position_offset, extend_positions: as in `fit_positions`; a table of positions with fewer rows takes the first.

    Returns:
        A `LoadReport`.

    Raises:
        ValueError: lists at once everything that does not fit.
    """
    known = {row.name for row in rows}
    names, problems = _canonical_names(source, table, known)
    report = LoadReport()
    by_path = {}
    for row in rows:
        by_path.setdefault(row.path, []).append(row)
    steps, taken = [], set()
    for variable in variables:
        found = [row for row in by_path.get(variable.path, ()) if row.name in names]
        taken.update(row.name for row in by_path.get(variable.path, ()))
        if not found:
            if variable.path not in optional:
                report.missing.append((variable.path, _why_missing(variable.path, by_path, names)))
            continue
        step = _Step(variable, found[0], names[found[0].name], [names[row.name] for row in found[1:]])
        problem = _shape_problem(step, source, position_offset, extend_positions)
        if problem:
            report.missing.append((variable.path, problem))
        else:
            steps.append(step)
    report.ignored = sorted(actual for name, actual in names.items() if name not in taken and table.is_ignored(name))
    report.unused = sorted(actual for name, actual in names.items() if name not in taken and not table.is_ignored(name))
    problems += [f"{path}: {why}" for path, why in report.missing]
    if not leftovers:
        problems += [f"{printable(name)}: nothing in the model takes it" for name in report.unused if table.is_of_encoder(name)]
    if problems and strict:
        raise ValueError("the checkpoint does not fit the model:\n  " + "\n  ".join(problems))
    for step in steps:
        _fill(step, source, report, position_offset, extend_positions)
    return report


def arrays_to_write(variables, rows):
    """The arrays of a model under foreign names, made one by one.

    Args:
        variables: the variables.
        rows: the rows of the table for the model.

    Returns:
        An iterator of `(name, array)`.

    Raises:
        ValueError: lists at once every variable that the format has no name for.
    """
    by_path = {row.path: row for row in reversed(rows) if row.use == "both"}
    nameless = [variable.path for variable in variables if variable.path not in by_path]
    if nameless:
        raise ValueError("the format has no name for:\n  " + "\n  ".join(nameless))
    for variable in variables:
        row = by_path[variable.path]
        yield row.name, np.ascontiguousarray(LAYOUTS[row.layout].to_theirs(to_numpy(variable)))


def to_numpy(variable):
    """The value of a variable on the host."""
    return keras.ops.convert_to_numpy(variable.value)


def _canonical_names(source, table, known):
    """The names of the file by their spelling in the table, and a problem for each that two names fall upon."""
    names, problems = {}, []
    for actual in source.names:
        name = table.canonical(actual, known)
        if name in names:
            problems.append(f"{printable(name)}: it is there twice, as {printable(names[name])} and as {printable(actual)}")
        names[name] = actual
    return names, problems


def _why_missing(path, by_path, names):
    if path not in by_path:
        return "the format has no name for it"
    name = by_path[path][0].name
    near = difflib.get_close_matches(name, names, n=2)
    return f"{name} is missing" + (f"; there is {' and '.join(map(printable, near))}" if near else "")


def _shape_problem(step, source, offset, extend):
    """What is wrong with an array, as far as names, shapes and types tell; None if nothing."""
    variable, row, name, aliases = step
    ours, theirs, dtype = tuple(variable.shape), tuple(source.shape(name)), source.dtype(name)
    if dtype not in FLOATS:
        return f"expected floats; {printable(name)} has {printable(dtype)}"
    if not LAYOUTS[row.layout].fits(theirs, ours):
        return (
            f"expected shape {LAYOUTS[row.layout].to_theirs(np.empty(ours)).shape}; {name} has {theirs}"
            if LAYOUTS[row.layout].to_theirs
            else f"expected as many numbers as in {ours}; {name} has {theirs}"
        )
    if row.layout == "positions" and ours[0] > theirs[0] and extend is None:
        return (
            f"expected {ours[0] - offset} positions; {name} has {theirs[0] - offset}: extend_positions says how to make it longer"
        )
    for alias in aliases:
        if tuple(source.shape(alias)) != theirs or not np.array_equal(source.read(alias), source.read(name)):
            return f"{alias} differs from {name}, and the model has one for both"
    return None


def _fill(step, source, report, offset, extend):
    variable, row, name, _ = step
    shape = tuple(variable.shape)
    array = source.read(name)
    with np.errstate(invalid="ignore"):
        finite = math.isfinite(array.sum(dtype="float64"))  # one number, and not an array of answers
    if not finite:
        warnings.warn(f"{name} holds numbers that are not finite; {variable.path} now holds them too.", stacklevel=4)
    if row.layout == "positions" and array.shape != shape:
        report.reshaped.append((variable.path, tuple(array.shape), shape))
        array = fit_positions(array, shape[0], offset, extend)
    array = LAYOUTS[row.layout].to_ours(array, shape)
    if array.dtype.name not in ("float32", "float64", "float16"):  # bfloat16, which not every backend takes from NumPy
        array = array.astype("float32")
    variable.assign(handed_over(array))
    report.loaded.append((variable.path, name, tuple(source.shape(name))))
