"""No module of the package imports, at any depth or inside a function, a module that imports it again. Reads files only."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
