"""Between them the runs of tox have every test, and the first has each of them on some backend."""

from types import SimpleNamespace

import keras
import pytest
from runs import NOT_ON_JAX, NOT_QUICK, TESTS, mark_runs, marks, matches


class Item:
    """What `mark_runs` asks of a test."""

    def __init__(self, file, name, *given):
        self.path, self.originalname, self.given, self.runs = TESTS / file, name, given, []

    def iter_markers(self):
        return [SimpleNamespace(name=name) for name in self.given]

    def add_marker(self, name):
        self.runs.append(name)


def runs_of(backend):
    """The runs of some tests on a backend."""
    items = [
        Item("models/test_heads.py", "a"),
        Item("models/test_heads.py", "a"),
        Item("models/test_heads.py", "b", "slow"),
        Item("models/test_heads.py", "b"),
        Item("models/test_heads.py", "c", "exhaustive"),
        Item("text/test_windows.py", "a"),
        Item("text/test_windows.py", "b", "tensorflow"),
        Item("recipes/test_plan.py", "a"),
        Item("cli/test_embed.py", "a"),
    ]
    mark_runs(items, backend)
    return [" ".join(item.runs) for item in items]


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("torch", ["first quick", "first", "rest", "first quick", "", "first quick", "first quick", "first", "first quick"]),
        ("tensorflow", ["first quick", "rest", "rest", "first quick", "", "rest quick", "first quick", "rest", "first quick"]),
        ("jax", ["first quick", "rest", "rest", "first quick", "", "", "", "rest", ""]),
    ],
)
def test_a_test_is_in_the_first_run_or_in_the_rest(backend, expected):
    assert runs_of(backend) == expected


def test_every_test_of_this_session_is_marked_but_those_with_environments_of_their_own(request):
    for item in request.session.items:
        by_name = {"exhaustive", "tpu", "browser", "package", "soak", "hostile"} & marks(item)
        left_out = keras.config.backend() == "jax" and matches(item, NOT_ON_JAX)
        assert len({"first", "rest"} & marks(item)) == (0 if by_name or left_out else 1), item


def test_every_pattern_names_files():
    for pattern in {*NOT_ON_JAX, *NOT_QUICK}:
        assert [path for path in TESTS.glob(pattern) if path.name.startswith("test_") or path.is_dir()], pattern
