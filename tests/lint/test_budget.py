"""How large the package may be, room by room. A budget may only fall: who needs more in one room takes it from another, here."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "keras_bert_rebuild"
FILES = sorted(PACKAGE.rglob("*.py"))

# Room: how many files it has, and lines of code, without blank lines, comments and docstrings.
ROOMS = {
    "activations": (4, 10),
    "anatomy": (7, 700),
    "checkpoints": (9, 925),
    "cli": (22, 2581),
    "data": (46, 4835),
    "datasets": (2, 105),
    "explain": (26, 2596),
    "export": (13, 1180),
    "families": (15, 1480),
    "files": (11, 1110),
    "interpret": (20, 2090),
    "kernels": (34, 2150),
    "layers": (23, 1440),
    "models": (33, 2910),
    "optimizers": (4, 10),
    "pretrained": (18, 2020),
    "recipes": (43, 4434),
    "search": (13, 1330),
    "tasks": (36, 4250),
    "text": (18, 2380),
    "the package itself": (10, 576),
    "training": (27, 2490),
}
# By how many lines of code a room may be smaller than its budget before the table has to say so.
SLACK = 30

# Under this number of lines, a file that a single other one imports is a part of it. These are yet to be merged.
SLIVER = 40
SLIVERS = {
    "kernels/tensorflow_replicas.py",
}

# How many files of the package `get_model` imports, directly or not.
IMPORTED_BY_GET_MODEL = 65


def room_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "the package itself"


def lines_of_code(path):
    text = path.read_text(encoding="utf-8")
    texts = [
        node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    docstrings = {line for node in texts if isinstance(node.value, str) for line in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in docstrings for number, line in lines)


def imported_files(path):
    """The files of the package that a file imports itself, with those of the packages around them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("keras_bert_rebuild."):
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                *around, last = name.split(".")[1:]
                for end in range(1, len(around) + 1):
                    yield PACKAGE.joinpath(*around[:end], "__init__.py")
                yield from (PACKAGE.joinpath(*around, file) for file in (f"{last}.py", f"{last}/__init__.py"))


IMPORTS = {path: set(imported_files(path)) & set(FILES) for path in FILES}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_its_budget(room):
    budget, most = ROOMS[room]
    files = [path for path in FILES if room_of(path) == room]
    lines = sum(map(lines_of_code, files))
    assert len(files) == budget
    assert most - SLACK <= lines <= most, lines


def test_every_file_is_in_a_room_with_a_budget():
    assert Counter(map(room_of, FILES)).keys() == ROOMS.keys()


def test_a_short_file_has_two_others_that_import_it():
    importers = defaultdict(set)
    for path, imported in IMPORTS.items():
        for other in imported:
            importers[other].add(path)
    # What a package imports has the users of the package.
    of_one = {path for path, (one, *others) in importers.items() if not others and "__init__.py" not in (path.name, one.name)}
    assert {path.relative_to(PACKAGE).as_posix() for path in of_one if lines_of_code(path) < SLIVER} == SLIVERS


def test_get_model_imports_few_files():
    reached, waiting = set(), {PACKAGE / "models" / "get_model.py"}
    while waiting:
        path = waiting.pop()
        reached.add(path)
        waiting |= IMPORTS[path] - reached
    assert len(reached) == IMPORTED_BY_GET_MODEL, len(reached)


ROOT = PACKAGE.parent
# Words as `wc -w` counts them. docs/reference/command-line.md is generated from the parser.
BENCHMARKS = (17, 2307)
PAGES = (36, 45_150)
WORDS_OF_RESULTS = 6_800


def test_benchmarks_and_pages_keep_their_budget():
    scripts = sorted((ROOT / "benchmarks").glob("*.py"))
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "command-line.md"]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    lines = sum(map(lines_of_code, scripts))
    assert len(scripts) <= BENCHMARKS[0]
    assert lines <= BENCHMARKS[1], lines
    assert len(pages) <= PAGES[0]
    assert words <= PAGES[1], words
    assert len((ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").split()) <= WORDS_OF_RESULTS
