"""Which runs of tox include a test: `quick`, and `first` (of `tox`), `rest` (of `tox -m full`) or `cases` (`tox -e tf-cases`).

The first run has one case of every test that is not slow, the second on torch everything else. On TensorFlow and JAX, where most of
the time goes into compiling, the first run has only tests whose answer could differ, without trainings from end to end; the second
has one case of the other tests that compute on a backend (on JAX not of what TensorFlow shows, too), and `cases` has the rest.
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
# in the first run of torch.
STORED_ANSWERS = "test_outputs_are_those_of_transformers"
FAMILIES = ("families/*",)
# Cases of these are pages and modules, some of which run on one backend only.
PAGES = ("docs/*", "test_docstrings.py")
# On torch all cases of these are in the first run: they are short, and a case is a form of a formula.
FORMULAS = ("anatomy/*", "kernels/*", "layers/*", "training/*")
# What is read, written, explained and printed is the same on every backend, and torch tries all of it first.
READ_AND_EXPLAINED = ("cli/*", "explain/*", "interpret/test_[!i]*", "pretrained/test_[!g]*", *PAGES)
# The quick run leaves out pages, processes and probes, and what is built on the rest.
NOT_QUICK = (
    *WHOLE_TRAININGS,
    *FAMILIES,
    *PAGES,
    "cli/*",
    "data/pretraining/test_pair_probe.py",
    "data/corpora/*",
    "explain/*",
    "interpret/*",
    "search/*",
    "soak/*",
)
# Trainings whose steps, losses and resumption other tests show on every backend: torch has them all, the others in `cases`.
ON_TORCH = (
    "cli/test_distill.py",
    "cli/test_pretrain_recipe.py",
    "recipes/pretraining/test_batch_warmup.py",
    "recipes/pretraining/test_curriculum.py",
    "recipes/pretraining/test_decay_from.py",
    "recipes/pretraining/test_distill.py",
    "recipes/pretraining/test_electra.py",
    "recipes/pretraining/test_pretrain_recipe.py",
    "recipes/pretraining/test_xlnet.py",
)
# Not in the second run either, unless they are slow: torch runs the examples of all docstrings, torch and TensorFlow the others.
NOT_IN_REST = {
    "tensorflow": ("test_docstrings.py",),
    "jax": ("test_docstrings.py", *WHOLE_TRAININGS, *FAMILIES),
}
# Marks of tests that may run on this backend alone, so that all their cases are in its runs.
BOUND = {"tensorflow", "skipif"}
# Marks of tests that have their own environment.
BY_NAME = {"exhaustive", "tpu", "cuda", "browser", "package", "soak", "hostile"}


def matches(item, patterns):
    """Whether the file of a test matches one of the patterns."""
    path = item.path.relative_to(TESTS).as_posix()
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def marks(item):
    """The names of the marks of a test, without those of its folders."""
    return {mark.name for mark in item.iter_markers()}


def first_cases(items):
    """The first case of every test; of stored answers, pages and docstrings all cases."""
    cases = {}
    for item in items:
        if not BY_NAME & marks(item):
            every = item.originalname == STORED_ANSWERS or matches(item, PAGES)
            cases.setdefault((item.path, item.name if every else item.originalname), item)
    return {*cases.values()}


def mark_runs(items, backend):
    """Mark every test with the runs that include it on a backend."""
    chosen = first_cases(items)
    for item in items:
        if BY_NAME & marks(item) or (backend == "jax" and matches(item, NOT_ON_JAX)):
            continue
        is_slow, is_chosen = "slow" in marks(item), item in chosen
        if backend == "torch":
            first = is_chosen or matches(item, FORMULAS)
        else:
            left_out = (*ON_NO_BACKEND, *ON_TORCH, *(() if is_slow else NOT_IN_REST[backend]))
            if not BOUND & marks(item) and (not is_chosen or matches(item, left_out)):
                item.add_marker("cases")
                continue
            is_elsewhere = matches(item, (*WHOLE_TRAININGS, *FAMILIES, *READ_AND_EXPLAINED)) and "tensorflow" not in marks(item)
            first = is_chosen and not is_elsewhere and "compiles_long" not in marks(item)
        item.add_marker("first" if first and not is_slow else "rest")
        if is_chosen and not is_slow and not matches(item, NOT_QUICK):
            item.add_marker("quick")
