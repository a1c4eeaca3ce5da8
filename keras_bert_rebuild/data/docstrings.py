"""A corpus that is on every machine: the docstrings of the installed libraries."""

import ast
import importlib.util
import inspect
import re
import sysconfig
import warnings
from pathlib import Path

# Neither documentation nor prose.
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__", "_vendor"}

# A passage is prose if it has at least this many words, and at least this share of its characters are letters and spaces.
MIN_WORDS = 8
MIN_LETTERS = 0.85


def docstring_files(packages):
    """The Python files of the standard library and of installed packages, in a fixed order.

    Args:
        packages: names of packages; those that are not installed are left out. None is imported.
    """
    folders = [Path(sysconfig.get_paths()["stdlib"])]
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folders.append(Path(next(iter(spec.submodule_search_locations))))
    files = []
    for folder in folders:
        inside = (path.relative_to(folder) for path in folder.rglob("*.py"))
        files += [folder / path for path in sorted(inside) if SKIPPED_FOLDERS.isdisjoint(path.parts)]
    return files


def docstring_document(path):
    """The prose of all docstrings of a file: a list of passages, one per paragraph."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in other people's strings
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and files for other versions of Python
        return []
    passages = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            passages += prose(ast.get_docstring(node, clean=True) or "")
    return list(dict.fromkeys(passages))


def prose(docstring):
    """The paragraphs of a docstring that are sentences, each on one line; code, tables and lists of arguments are left out.

    Example:

    >>> prose("Return the sum of two numbers, be they integers or floats.\\n\\n>>> add(1, 2)\\n3")
    ['Return the sum of two numbers, be they integers or floats.']
    """
    passages = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        line = " ".join(paragraph.split())
        letters = sum(char.isalpha() or char == " " for char in line)
        if len(line.split()) >= MIN_WORDS and letters >= MIN_LETTERS * len(line) and ">>>" not in line and "```" not in line:
            passages.append(line)
    return passages
