"""What type checkers see: the stub of the root has the lazy names, and public functions are annotated."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "keras_bert_rebuild"

# The callable packages: a type checker sees them as functions.
CALLED = {"explain": "keras_bert_rebuild.explain.explanation", "export": "keras_bert_rebuild.export.export_model"}

# Methods that Keras calls with tensors of any backend, and Python's own: these are not annotated.
KERAS = {"call", "quantized_call", "build", "quantize", "get_config", "from_config", "set_weights", "set_model", "learning_rate"}
KERAS |= {"compute_mask", "compute_output_shape", "compute_output_spec", "compute_loss", "compute_metrics"}
KERAS |= {"apply", "update_step", "adapted", "__call__", "__reduce__"}


def tree_of(module):
    path = PACKAGE.parent.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


def imported(tree):
    """For every name that a file imports, its module."""
    return {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def literal(tree, name):
    value = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == name)
    return ast.literal_eval(value)


def public_names():
    """For every top-level name, the module that `__init__.py` imports it from."""
    root = tree_of("keras_bert_rebuild")
    names = {name: module for table in ("_LAZY", "_OLDER") for module, several in literal(root, table) for name in several}
    return names | {"__version__": imported(root)["__version__"]}


def definition(module, name):
    """Where a name is defined, and as what: (module, node)."""
    tree = tree_of(module)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return module, node
    of_package = imported(tree).get(name, "").startswith("keras_bert_rebuild")
    return definition(imported(tree)[name], name) if of_package else (module, None)


def functions(module, name):
    """The functions that a user of a name may call: the function, or the methods of a class and its bases in this package."""
    module, node = definition(module, name)
    if isinstance(node, ast.FunctionDef):
        yield f"{module}.{name}", node
    elif isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and (not method.name.startswith("_") or method.name == "__init__"):
                yield f"{module}.{name}.{method.name}", method
        for base in node.bases:
            if isinstance(base, ast.Name):
                yield from functions(module, base.id)


def is_annotated(function):
    arguments = [*function.args.args, *function.args.kwonlyargs, function.args.vararg, function.args.kwarg]
    given = [argument for argument in arguments if argument is not None and argument.arg not in ("self", "cls")]
    return function.returns is not None and all(argument.annotation is not None for argument in given)


def test_the_stub_has_the_names_of_the_root():
    stub = imported(ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8")))
    submodules = dict.fromkeys(literal(tree_of("keras_bert_rebuild"), "_SUBMODULES"), "keras_bert_rebuild")
    assert stub == public_names() | submodules | CALLED


def shown_names():
    """Module and name of everything in the reference that users call, in the package's face or not."""
    pages = (PACKAGE.parent / "docs" / "reference").glob("*.md")
    paths = [path for page in pages for path in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)]
    answers = {"PretrainingBatches"}  # which `pretraining_batches` makes
    return {(module, name) for module, _, name in (path.rpartition(".") for path in paths) if name not in answers}


def test_public_functions_annotate_arguments_and_results():
    names = {(module, name) for name, module in {**public_names(), **CALLED}.items()} | shown_names()
    bare = {
        where
        for module, name in names
        for where, function in functions(module, name)
        if where.rsplit(".", 1)[-1] not in KERAS and not where.rsplit(".", 1)[-1].startswith("on_") and not is_annotated(function)
    }
    assert not bare


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").read_bytes() == b""
