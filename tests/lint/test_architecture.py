"""Which modules may import which, that none imports itself in a circle, and what may not be in the source. Imports nothing."""

import ast
import configparser
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "keras_bert_rebuild"

# Part: its rank and, unless it may import all lower parts, the parts it may import. The page on it explains the table.
RANKS = {
    "files": 0,
    "version": 0,
    "layers": 0,
    "anatomy": 1,
    "kernels": 1,
    "config": 2,
    "text": 2,
    "checkpoints": 2,
    "models": 3,
    "families": 3,
    "data": 3,
    "pretrained": 4,
    "training": 4,
    "tasks": 5,
    "explain": 5,
    "search": 6,
    "export": 6,
    "interpret": 6,
    "recipes": 7,
    # Anything may be imported by these; nothing imports them.
    "cli": 8,
    "__init__": 8,
    "custom_objects": 8,
    "keras_2_models": 8,
    "bert": 8,
    "loader": 8,
    "tokenizer": 8,
    "util": 8,
    "optimizers": 8,
    "datasets": 8,
    "backend": 8,
    "activations": 8,
}
ONLY = {
    "anatomy": {"layers"},
    "kernels": {"layers"},
    "models": {"layers", "config"},
    "families": {"layers", "config", "checkpoints"},
    "data": {"layers", "text"},
}
GROUND = {"files", "version", "anatomy", "kernels"}  # these may be imported by every part above

# The only files that may import a backend, besides kernels/<backend>_*.py: TensorFlow for datasets, torch for pickles and seeds.
BACKENDS = {"tensorflow", "tensorflow_text", "torch", "jax"}
BACKEND_FILES = {
    "kernels/device_settings.py",
    "text/tensorflow_wordpiece.py",
    "checkpoints/torch_file.py",
    "data/pretraining/tf_pretraining_batches.py",
    "training/state/seeds.py",
    "training/distributed/hosts.py",
    "recipes/planning/device_compiler.py",
    "export/saved_model.py",
}

# The only files that may ask which backend runs. Others take an operation from `kernels`, or a fact from `kernels.traits`.
ASKS_FOR_BACKEND = {
    "kernels/device_settings.py": "sets what each backend calls otherwise",
    "kernels/asynchronous.py": "chooses how a prediction begins, and how a batch gets to an accelerator",
    "kernels/gradients.py": "chooses who differentiates",
    "kernels/__init__.py": "imports the kernels of the backend",
    "kernels/kernel.py": "attaches them",
    "kernels/traits.py": "says what a backend is like",
    "training/distributed/distribution.py": "has the kinds of devices of each backend, and names it in errors",
    "training/distributed/hosts.py": "names it in an error",
    "export/saved_model.py": "names it in an error",
    "training/state/checkpoint.py": "writes its name into a checkpoint",
    "recipes/run_folder.py": "writes its name into the record of a run",
    "cli/demo.py": "prints its name",
    "cli/demo_texts.py": "reads the documentation of its package",
    "cli/demo_training.py": "chooses where XLA compiles the steps",
}

# The only files with names of layers by the number of their block. Others find blocks in an `EncoderView`.
NAMES_BLOCKS = {
    "anatomy/block_parts.py": "names the parts of a block",
    "models/encoder.py": "names the layers of a block",
    "models/encoder_blocks.py": "finds them by these names",
    "models/get_encoders.py": "names blocks as keras_transformer does",
    "models/find_encoder.py": "finds the numbers of the blocks in a graph",
    "pretrained/config_of_layers.py": "finds the settings of a block",
    "pretrained/find_checkpoint.py": "knows a file of keras_bert by a name in it",
    "checkpoints/hdf5.py": "has keras_bert's names of weights",
    "families/": "pair paths of weights with the names of other libraries",
    "explain/weight_names.py": "has the paths of pruned weights",
    "cli/demo.py": "prints which blocks it leaves out",
    "training/optimizers/path_patterns.py": "has patterns of paths",
    "training/optimizers/muon.py": "has a pattern of paths",
}

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path):
    """Every module that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if node.module == "keras_bert_rebuild":
                yield from (f"keras_bert_rebuild.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_part_imports_only_parts_below_it(path):
    part = part_of(path)
    for module in imports(path):
        if not module.startswith("keras_bert_rebuild."):
            continue
        other = module.split(".")[1]
        if other == part or RANKS[part] == 8:
            continue
        assert other in RANKS, f"{path} imports {module}, which the table does not know"
        assert RANKS[other] < RANKS[part], f"{part} imports {other}"
        assert part not in ONLY or other in ONLY[part] | GROUND, f"{part} may import {sorted(ONLY[part])}, not {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_private_and_no_backend_is_imported(path):
    for module in imports(path):
        assert not re.match(r"(tensorflow\.python|keras\.src|keras_hub|tf_keras)", module), f"{path} imports {module}"
        backend = module.split(".")[0]
        if backend in BACKENDS:
            relative = path.relative_to(PACKAGE).as_posix()
            assert relative in BACKEND_FILES or relative.startswith(f"kernels/{backend}_"), f"{path} imports {module}"


LAYERS = [path for path in FILES if part_of(path) == "layers"]


@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
def test_a_layer_imports_keras_and_layers_and_knows_of_no_thread_or_backend(path):
    of_package = {module.split(".")[1] for module in imports(path) if module.startswith("keras_bert_rebuild.")}
    others = {module.split(".")[0] for module in imports(path)} - {"keras_bert_rebuild", "keras", "numpy"}
    assert of_package <= {"layers"}
    assert others <= set(sys.stdlib_module_names) - {"threading"}


def test_the_call_of_a_layer_is_as_short_as_its_equation():
    calls = {}
    for path in LAYERS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "call":
                calls[f"{path.stem}:{node.lineno}"] = node.end_lineno - node.lineno + 1
    assert {call: lines for call, lines in calls.items() if lines > 13} == {}  # with the line of its name


def test_what_runs_here_is_in_one_context_variable():
    state = r"threading\.local|ContextVar\("
    assert [path.name for path in FILES if re.search(state, path.read_text(encoding="utf-8"))] == ["seam.py"]


def test_only_the_named_files_ask_for_the_backend():
    asked = {str(path.relative_to(PACKAGE)) for path in FILES if re.search(r"\bbackend\(\)", path.read_text(encoding="utf-8"))}
    assert asked == ASKS_FOR_BACKEND.keys()


def test_no_method_of_an_object_is_replaced_from_outside():
    """Assignments such as `optimizer.apply = ...`, for methods that Keras calls."""
    called = {"apply", "apply_gradients", "update_step", "call", "train_step", "test_step", "build", "compute_loss"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                targets = [target for target in node.targets if isinstance(target, ast.Attribute)]
                replaced = [t.attr for t in targets if t.attr in called or t.attr.startswith("_all_reduce")]
                assert not replaced, f"{path} replaces {replaced}"


def test_only_the_named_files_have_names_of_layers_by_the_number_of_a_block():
    found = set()
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in docstrings)
        if any(re.search(r"Encoder-(\d|\{|\(?\\+d)", ast.unparse(node)) for node in texts):
            relative = path.relative_to(PACKAGE).as_posix()
            found.add("families/" if relative.startswith("families/") else relative)
    assert found == NAMES_BLOCKS.keys()


def test_private_names_are_not_reached_in_other_ways():
    for path in FILES:
        assert not re.search(r"tensorflow\.python|keras\.src", path.read_text(encoding="utf-8")), path


def test_nothing_catches_everything():
    for path in FILES:
        assert not re.search(r"except( Exception| BaseException)?:", path.read_text(encoding="utf-8")), path


def test_files_stay_readable_in_one_sitting():
    long = {str(path.relative_to(ROOT)): n for path in FILES if (n := len(path.read_text(encoding="utf-8").splitlines())) > 300}
    assert not long


def test_no_class_has_thirty_methods():
    classes = [
        node for path in FILES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)
    ]
    methods = {node.name: sum(isinstance(item, ast.FunctionDef) for item in node.body) for node in classes}
    assert {name: count for name, count in methods.items() if count >= 30} == {}


def test_no_file_is_named_after_nothing():
    # util.py is keras_bert's own import path.
    assert not [path for path in FILES if path.stem in {"utils", "helpers", "common", "misc", "base"}]


def test_the_page_on_the_architecture_has_the_ranks_and_the_files_with_backends():
    page = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", page, re.MULTILINE)
    assert {part: int(rank) for rank, parts in rows for part in re.findall(r"`(\w+)`", parts)} == RANKS
    named = {"text/tensorflow_*.py" if file.startswith("text/") else file.rpartition("/")[2] for file in BACKEND_FILES}
    assert {file for file in named if file not in page} == set()


def test_tox_names_the_needs_that_setup_cfg_declares():
    declared, tox = configparser.ConfigParser(), configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg", encoding="utf-8")
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    lines = lambda text: {line.split(";")[0].strip() for line in text.splitlines() if line.strip()}  # noqa: E731
    needs = {line for line in lines(declared["options"]["install_requires"]) if not line.startswith("tensorflow")}
    needs |= lines(declared["options.extras_require"]["search"])
    assert needs <= lines(tox["core"]["deps"])
    for backend in ("jax", "torch"):
        name = declared["options.extras_require"][backend].split(">=")[0]
        assert any(line.startswith(name) for line in lines(tox[f"testenv:{backend}"]["deps"]))


def module_name(path, root):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(package):
    """For every module of a package, the modules of the package that its file imports, at any depth."""
    root = package.parent
    paths = {module_name(path, root): path for path in package.rglob("*.py")}
    graph = {}
    for module, path in paths.items():
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                # A name of a package is one of its modules, or a name in its __init__.
                several = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {name if name in paths else node.module for name in several}
        graph[module] = (imported & set(paths)) - {module}
    return graph


def circle(graph):
    """The modules of one circle in import order, the first repeated at the end; () if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    return ()


def test_no_modules_of_the_package_import_each_other():
    graph = import_graph(ROOT / "keras_bert_rebuild")
    assert len(graph) > 100
    assert circle(graph) == ()


@pytest.mark.parametrize(
    "line", ["import toy.b", "from toy import b", "from toy.b import name", "def f():\n    from toy.b import name"]
)
def test_a_circle_is_found_however_its_imports_are_written(tmp_path, line):
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "a.py").write_text(line, encoding="utf-8")
    (package / "b.py").write_text("from toy.c import other", encoding="utf-8")
    (package / "c.py").write_text("", encoding="utf-8")
    assert circle(import_graph(package)) == ()
    (package / "c.py").write_text("from toy.a import f", encoding="utf-8")
    assert set(circle(import_graph(package))) == {"toy.a", "toy.b", "toy.c"}
