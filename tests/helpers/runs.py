"""Which runs of tox include a test: `quick`, and either `first` (of `tox`) or `rest` (of `tox -m full`).

Torch compiles nothing, so the first run there has every case of every test that is not slow. On TensorFlow and JAX most of the time
goes into compiling. The first run there has one case of every test whose answer could differ, without trainings from end to end.
"""

import fnmatch
from pathlib import Path

TESTS = Path(__file__).parents[1]

# Tests that do not compute on any backend.
ON_NO_BACKEND = (
    "checkpoints/test_damaged_files.py",
    "cli/test_prepare.py",
    "cli/test_vocab.py",
    "data/*",
    "datasets/*",
    "docs/test_links.py",
    "docs/test_reference.py",
    "files/*",
    "search/*",
    "tasks/metrics/*",
    "test_oracles.py",
    "text/*",
)
# These run on torch and TensorFlow: with TensorFlow installed, and without.
NOT_ON_JAX = (*ON_NO_BACKEND, "cli/*")
# End-to-end trainings of what other tests run part by part: compiling them takes a fifth of the time on TensorFlow.
WHOLE_TRAININGS = ("programs/*", "recipes/*")
# The first run of every backend has all cases of this test, the stored answers of all families; what else is known of a family is
# on torch.
STORED_ANSWERS = "test_outputs_are_those_of_transformers"
FAMILIES = ("families/*",)
# What is read, written and explained is the same on JAX as on the other two.
REST_ON_JAX = ("explain/*", "pretrained/test_[!g]*")
# These, and pages, processes and probes, take too long for a one-minute run.
NOT_QUICK = (
    *WHOLE_TRAININGS,
    "cli/test_command.py",
    "data/pretraining/test_pair_probe.py",
    "data/corpora/*",
    "docs/*",
    "families/*",
    "soak/*",
    "test_names.py",
    "test_registrations.py",
)
# Marks of tests that have their own environment.
BY_NAME = {"exhaustive", "tpu", "browser", "package", "soak", "hostile"}


def matches(item, patterns):
    """Whether the file of a test matches one of the patterns."""
    path = item.path.relative_to(TESTS).as_posix()
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def marks(item):
    """The names of the marks of a test, without those of its folders."""
    return {mark.name for mark in item.iter_markers()}


def first_cases(items):
    """The first case of every test that is not slow; of stored answers all cases."""
    cases = {}
    for item in items:
        if not ({"slow"} | BY_NAME) & marks(item):
            cases.setdefault((item.path, item.name if item.originalname == STORED_ANSWERS else item.originalname), item)
    return {*cases.values()}


def mark_runs(items, backend):
    """Mark every test with the runs that include it on a backend."""
    chosen = first_cases(items)
    for item in items:
        if BY_NAME & marks(item) or (backend == "jax" and matches(item, NOT_ON_JAX)):
            continue
        if backend == "torch":
            first = "slow" not in marks(item)
        else:
            later = (*ON_NO_BACKEND, *WHOLE_TRAININGS, *FAMILIES, *(REST_ON_JAX if backend == "jax" else ()))
            elsewhere = matches(item, later) and "tensorflow" not in marks(item)
            first = item in chosen and not elsewhere and "compiles_long" not in marks(item)
        item.add_marker("first" if first else "rest")
        if item in chosen and not matches(item, NOT_QUICK):
            item.add_marker("quick")
