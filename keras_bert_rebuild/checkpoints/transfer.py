"""Arrays by foreign name into the variables of a model: all or nothing."""

import difflib

import numpy as np

# How an array of theirs becomes one of ours.
LAYOUTS = {
    "same": lambda array, shape: array,
    "transposed": lambda array, shape: array.T,
    "first rows": lambda array, shape: array[: shape[0]],
}


def load_variables(variables, rows, names, read):
    """Assign checkpoint arrays to variables.

    Nothing is assigned unless every variable has its array in the right shape.

    Args:
        variables: the variables to fill; those whose path no row names are an error.
        rows: `(path, name, layout)`; rows whose path is not among the variables are left out.
        names: the names in the checkpoint.
        read: from a name to its array.

    Raises:
        ValueError: lists at once every variable without a row, every missing name, with near matches, and every wrong shape.
    """
    by_path = {path: (name, layout) for path, name, layout in rows}
    problems, values = [], []
    for variable in variables:
        if variable.path not in by_path:
            problems.append(f"{variable.path}: the name table has no row for it")
            continue
        name, layout = by_path[variable.path]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=2)
            problems.append(f"{variable.path}: {name} is missing" + (f"; there is {' and '.join(near)}" if near else ""))
            continue
        array = LAYOUTS[layout](np.asarray(read(name)), tuple(variable.shape))
        if array.shape != tuple(variable.shape):
            problems.append(f"{variable.path}: expected shape {tuple(variable.shape)}; {name} has {array.shape}")
            continue
        values.append(array)
    if problems:
        raise ValueError("the checkpoint does not fit the model:\n  " + "\n  ".join(problems))
    for variable, array in zip(variables, values, strict=True):
        variable.assign(array)
