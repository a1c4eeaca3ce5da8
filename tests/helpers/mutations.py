"""Every value of a good file replaced in turn by values of a wrong type."""

import copy
import itertools

WRONG = (None, -1, 0, 2**63, float("inf"), "", "x", [], {}, [[]], True)


def mutations(good):
    """Yield `(where, mutated)`: copies of plain values in which one value at any depth, or all of it, is one of `WRONG`.

    Args:
        good: what a file has, such as parsed JSON.
    """
    for path, wrong in itertools.product(_paths(good), WRONG):
        if not path:
            yield f"all = {wrong!r}", copy.deepcopy(wrong)
            continue
        mutated = copy.deepcopy(good)
        inner = mutated
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = copy.deepcopy(wrong)
        yield f"{'/'.join(map(str, path))} = {wrong!r}", mutated


def fault_of(action, name):
    """What is wrong with how an action takes a mutated file; None if it succeeds, or raises one sentence that names the file.

    Args:
        action: a function without arguments.
        name: the name of the file.
    """
    try:
        action()
    except (ValueError, OSError) as error:
        text = str(error)
        return (
            None if name in text and "\n" not in text and len(text) < 1000 else f"a {type(error).__name__} that says {text[:200]!r}"
        )
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _paths(value):
    yield ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from ((key, *path) for path in _paths(part))
