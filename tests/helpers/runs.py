"""Which runs of tox include a test: `quick`, and `first` (of `tox`), `rest` (of `tox -m full`) or `cases` (`tox -e tf-cases`).

The first run has one case of every test that is not slow, without most trainings from end to end, families and explanation; the
second on torch has what it leaves out. On TensorFlow and JAX, where most of the time goes into compiling, the first run has what
could differ: layers, models, losses of pretraining, optimizers, state and one task. There the second has one case of the other
tests that compute on a backend (on JAX not of what TensorFlow shows, too), and `cases` has what is left.
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
# End-to-end trainings of what other tests run part by part: compiling them takes a fifth of the time on TensorFlow. Torch has two
# in its first run, JAX these two in its second.
WHOLE_TRAININGS = ("programs/*", "recipes/*")
LATER_ON_TORCH = (
    *("programs/*", "recipes/*", "families/*", "explain/*", "interpret/*", "test_docstrings.py"),
    *("data/pretraining/test_pair_probe.py", "kernels/test_torch_graphs.py"),
)
MAIN_TRAININGS = ("recipes/finetuning/test_finetune.py", "recipes/pretraining/test_pretrain.py")
# The first run of every backend has all cases of this test, the stored answers of all families.
STORED_ANSWERS = "test_outputs_are_those_of_transformers"
FAMILIES = ("families/*",)
# Cases of these are pages and modules, some of which run on one backend only.
PAGES = ("docs/*", "test_docstrings.py")
# On torch all cases of these are in the first run: they are short, and a case is a form of a formula.
FORMULAS = ("anatomy/*", "kernels/*", "layers/*", "training/test_*")
# What is read, written, explained and printed is the same on every backend, and torch tries all of it first.
READ = ("cli/*", "pretrained/test_[!g]*")
EXPLAINED = ("explain/*", "interpret/test_[!i]*", *PAGES)
# What is built around models that other tests run, configs of layers, and what is refused; the first run has one task that is
# trained, answers and is saved.
AROUND_MODELS = (
    "export/*",
    "interpret/test_intervene_in_model.py",
    "layers/test_layer_contracts.py",
    "models/test_adapters.py",
    "models/test_attention_relations.py",
    "models/test_checked_data.py",
    "models/test_encoder_view.py",
    "models/test_families.py",
    "models/test_host_check.py",
    "models/test_soft_targets.py",
    "soak/*",
    "tasks/*",
    "training/distributed/*",
    "training/test_lora.py",
    "training/test_score_loss.py",
    "training/test_re*_losses.py",
    "training/test_task_losses.py",
)
MAIN_TASK = ("tasks/test_text_classifier.py",)
LATER_WHERE_COMPILED = (*WHOLE_TRAININGS, *FAMILIES, *READ, *EXPLAINED, *AROUND_MODELS)
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
# Trainings whose steps, losses and resumption other tests show on every backend, connections, tables: torch has them in its runs,
# the others in `cases`.
ON_TORCH = (
    "cli/test_distill.py",
    "cli/test_no_connections.py",
    "cli/test_pretrain_recipe.py",
    "explain/test_gallery.py",
    "programs/test_[ct]*",
    "recipes/pretraining/test_batch_warmup.py",
    "recipes/pretraining/test_curriculum.py",
    "recipes/pretraining/test_decay_from.py",
    "recipes/pretraining/test_distill.py",
    "recipes/pretraining/test_electra.py",
    "recipes/pretraining/test_pretrain_recipe.py",
    "recipes/pretraining/test_xlnet.py",
)
# Not in the second run either, except on TensorFlow, the default, where slow: torch and TensorFlow show them.
NOT_IN_REST = {
    "tensorflow": EXPLAINED,
    "jax": (*WHOLE_TRAININGS, *FAMILIES, *READ, *EXPLAINED, "tasks/*", "test_examples.py"),
}
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
            is_later = matches(item, LATER_ON_TORCH) and not matches(item, MAIN_TRAININGS)
            first = not is_later and (is_chosen or matches(item, FORMULAS))
        else:
            is_shown = matches(item, NOT_IN_REST[backend]) and not matches(item, (*MAIN_TASK, *MAIN_TRAININGS))
            is_left_out = matches(item, (*ON_NO_BACKEND, *ON_TORCH)) or (is_shown and not (is_slow and backend == "tensorflow"))
            # It may run on this backend alone, so that all its cases are in the runs of this backend.
            is_bound = "tensorflow" in marks(item) or ("skipif" in marks(item) and not matches(item, ON_NO_BACKEND))
            if not is_bound and (not is_chosen or is_left_out):
                item.add_marker("cases")
                continue
            is_later = matches(item, LATER_WHERE_COMPILED) and not matches(item, MAIN_TASK) and "tensorflow" not in marks(item)
            first = is_chosen and not is_later and "compiles_long" not in marks(item)
        item.add_marker("first" if first and not is_slow else "rest")
        if is_chosen and not is_slow and not matches(item, NOT_QUICK):
            item.add_marker("quick")
