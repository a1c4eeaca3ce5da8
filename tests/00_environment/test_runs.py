"""Together the runs of tox cover every test, and the first run covers each that is not slow on some backend."""

import copy
from types import SimpleNamespace

import keras
import pytest
from helpers.runs import (
    FORMULAS,
    LATER_ON_TORCH,
    LATER_WHERE_COMPILED,
    MAIN_TASK,
    MAIN_TRAININGS,
    NOT_ON_JAX,
    NOT_QUICK,
    ON_TORCH,
    STORED_ANSWERS,
    TESTS,
    mark_runs,
    marks,
    matches,
)


class Item:
    """What `mark_runs` needs of a test."""

    def __init__(self, file, name, *given, case=""):
        self.path, self.originalname, self.name, self.given, self.runs = TESTS / file, name, name + case, given, []

    def iter_markers(self):
        return [SimpleNamespace(name=name) for name in self.given]

    def add_marker(self, name):
        self.runs.append(name)


# A test, and its runs on torch, TensorFlow and JAX.
CASES = (
    (Item("models/test_heads.py", "a"), "first quick", "first quick", "first quick"),
    (Item("models/test_heads.py", "a"), "rest", "cases", "cases"),
    (Item("models/test_families.py", "a"), "first quick", "rest quick", "rest quick"),
    (Item("models/test_heads.py", "b", "slow"), "rest", "rest", "rest"),
    (Item("models/test_heads.py", "b", "slow"), "rest", "cases", "cases"),
    (Item("models/test_heads.py", "c", "exhaustive"), "", "", ""),
    (Item("models/test_heads.py", "d", "compiles_long"), "first quick", "rest quick", "rest quick"),
    (Item("layers/test_masked.py", "a"), "first quick", "first quick", "first quick"),
    (Item("layers/test_masked.py", "a"), "first", "cases", "cases"),
    (Item("text/test_encoding.py", "a"), "first quick", "cases", ""),
    (Item("text/test_encoding.py", "b", "tensorflow"), "first quick", "first quick", ""),
    (Item("text/test_encoding.py", "b", "tensorflow"), "rest", "rest", ""),
    (Item("kernels/test_jax_flash.py", "a", "skipif"), "first quick", "first quick", "first quick"),
    (Item("kernels/test_jax_flash.py", "a", "skipif"), "first", "rest", "rest"),
    (Item("kernels/test_torch_graphs.py", "a", "skipif"), "rest quick", "first quick", "first quick"),
    (Item("kernels/test_torch_graphs.py", "a", "skipif"), "rest", "rest", "rest"),
    (Item("tasks/test_text_classifier.py", "a"), "first quick", "first quick", "first quick"),
    (Item("tasks/test_reranker.py", "a"), "first quick", "rest quick", "cases"),
    (Item("tasks/test_reranker.py", "b", "slow"), "rest", "rest", "cases"),
    (Item("explain/test_summary.py", "a"), "rest", "cases", "cases"),
    (Item("explain/test_summary.py", "b", "slow"), "rest", "rest", "cases"),
    (Item("data/corpora/test_prepare.py", "a", "skipif", "slow"), "rest", "cases", ""),
    (Item("tasks/test_reranker.py", "a"), "rest", "cases", "cases"),
    (Item("recipes/planning/test_plan.py", "a"), "rest", "rest", "cases"),
    (Item("recipes/planning/test_plan.py", "b", "slow"), "rest", "rest", "cases"),
    (Item("recipes/finetuning/test_finetune.py", "a"), "first", "rest", "rest"),
    (Item("recipes/finetuning/test_predict.py", "a"), "rest", "rest", "cases"),
    (Item("recipes/pretraining/test_distill.py", "a", "slow"), "rest", "cases", "cases"),
    (Item("pretrained/test_save_pretrained.py", "a"), "first quick", "rest quick", "cases"),
    (Item("pretrained/test_golden.py", STORED_ANSWERS, case="[bert]"), "first quick", "first quick", "first quick"),
    (Item("pretrained/test_golden.py", STORED_ANSWERS, case="[xlnet]"), "first quick", "first quick", "first quick"),
    (Item("families/test_xlnet.py", "a"), "rest", "rest", "cases"),
    (Item("test_docstrings.py", "a", case="[one]"), "rest", "cases", "cases"),
    (Item("cli/test_embed.py", "a"), "first", "rest", ""),
    (Item("docs/test_pages.py", "a", case="[one]"), "first", "cases", "cases"),
    (Item("docs/test_pages.py", "a", case="[other]"), "first", "cases", "cases"),
)


@pytest.mark.parametrize(("place", "backend"), [(1, "torch"), (2, "tensorflow"), (3, "jax")])
def test_a_test_is_in_the_first_run_or_in_the_rest(place, backend):
    items = [copy.deepcopy(case[0]) for case in CASES]
    mark_runs(items, backend)
    assert [" ".join(item.runs) for item in items] == [case[place] for case in CASES]


def test_every_test_of_this_session_is_marked_except_those_with_their_own_environment(request):
    for item in request.session.items:
        by_name = {"exhaustive", "tpu", "browser", "package", "soak", "hostile"} & marks(item)
        left_out = keras.config.backend() == "jax" and matches(item, NOT_ON_JAX)
        assert len({"first", "rest", "cases"} & marks(item)) == (0 if by_name or left_out else 1), item


def test_every_pattern_names_files():
    for pattern in {
        *(*NOT_ON_JAX, *NOT_QUICK, *FORMULAS, *ON_TORCH),
        *(*LATER_ON_TORCH, *MAIN_TRAININGS, *LATER_WHERE_COMPILED, *MAIN_TASK),
    }:
        assert [path for path in TESTS.glob(pattern) if path.name.startswith("test_") or path.is_dir()], pattern
