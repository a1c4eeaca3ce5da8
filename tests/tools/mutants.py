"""What the tests catch: one small change in each of the central functions, and the tests of its folder.

    KERAS_BACKEND=torch python tests/tools/mutants.py [--of 60] [--seed 0] [--only layers/] [--list]

Every changed function is written into a copy of the repository, in which the tests run. First the files of tests that name its
module or the function run, then, if nothing fails, the folder of the module and the tests of models, one case of each. A mutant
that survives is printed with its line, before and after. Some compute the same as the original; what counts is that a change of
the tests lets no further one survive. A function that moves keeps its mutant.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "keras_bert_rebuild"
# The rooms whose functions are central: what every model, every loss, every weight and every text goes through.
CENTRAL = (
    *("layers/*.py", "anatomy/*.py", "models/*.py", "config.py", "training/losses.py", "training/optimizers/*.py"),
    *("training/state/train_state.py", "checkpoints/transfer.py", "checkpoints/table.py"),
    *("text/encoding.py", "text/flat_tokens.py"),
    *("data/pretraining/masking.py", "data/pretraining/examples.py", "data/packing.py", "data/random_numbers.py"),
)
# Seconds after which a mutant counts as caught: it loops for ever.
LONGEST = 300
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow(torch=True)")

SWAPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}


def sites(function):
    """The nodes of a function that can be changed; docstrings, errors and `strict=True` are left out."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop(0)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or isinstance(node, (ast.Raise, ast.JoinedStr)) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        if isinstance(node, ast.Compare):
            is_site = type(node.ops[0]) in SWAPPED
        elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp)):
            is_site = type(node.op) in SWAPPED or isinstance(node.op, ast.Not)
        else:
            is_site = isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))
        if is_site:
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def change(node):
    """Change a node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    else:
        node.op = SWAPPED[type(node.op)]()


def functions_of(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "get_config" and any(sites(node))]


def mutants(count, seed, only):
    """One mutant of each of `count` functions: file, function, line, what was there, what is there now, and the whole source."""
    keyed = []
    for path in sorted({path for pattern in CENTRAL for path in PACKAGE.glob(pattern)}):
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        for i, function in enumerate(functions_of(ast.parse(text)) if name.startswith(only) else ()):
            keyed.append((zlib.crc32(f"{seed} {ast.unparse(function)}".encode()), name, i, text))
    for key, name, i, text in sorted(sorted(keyed)[:count], key=lambda row: row[1:3]):
        tree = ast.parse(text)
        function = functions_of(tree)[i]
        changeable = [*sites(function)]
        node = changeable[key % len(changeable)]
        before = ast.unparse(node)
        change(node)
        yield name, function.name, node.lineno, before, ast.unparse(node), ast.unparse(tree)


def tests_of(root, name, function):
    """The tests below a root to run in turn for a function in a file of the package, with the options of pytest."""
    path = Path(name)
    folder = root / "tests" / path.parent if path.parent.name else root / "tests" / "anatomy"
    module = ".".join(path.with_suffix("").parts)
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(folder.rglob("test_*.py"))}
    near = [file for file, text in texts.items() if file.name == f"test_{path.stem}.py" or module in text or function in text]
    if near:
        yield near
    yield ["--first-cases", *sorted({folder, root / "tests" / "models"})]


def survives(mutant):
    """Whether the tests pass with a mutant."""
    name, function, *_, source = mutant
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, ROOT.name)  # all of it, since Python looks for the package in the current folder first
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        (root / PACKAGE.name / name).write_text(source, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in tests_of(root, name, function):
            command = [sys.executable, "-m", "pytest", *OPTIONS, *map(str, tests)]
            try:
                done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=LONGEST, check=False)
            except subprocess.TimeoutExpired:
                return False
            if done.returncode not in (0, 5):  # 5: no test was chosen
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--of", type=int, default=60, help="how many functions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="the beginning of the paths of files, such as layers/")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    arguments = parser.parse_args()
    chosen, began, caught = [*mutants(arguments.of, arguments.seed, arguments.only)], time.monotonic(), 0
    if arguments.list:
        for name, function, line, before, after, _ in chosen:
            print(f"{name}:{line} {function}: {before}  ->  {after}")
        return
    for name, function, *_ in chosen[:1]:
        if not survives((name, function, (PACKAGE / name).read_text(encoding="utf-8"))):
            raise SystemExit(f"expected tests that pass without a change; those of {function} in {name} fail: all would count.")
    with ThreadPoolExecutor(2) as pool:
        for number, (mutant, survived) in enumerate(zip(chosen, pool.map(survives, chosen), strict=True), 1):
            name, function, line, before, after, _ = mutant
            caught += not survived
            left = (time.monotonic() - began) / number * (len(chosen) - number) / 60
            if survived:
                print(f"survived: {name}:{line} {function}: {before}  ->  {after}")
            print(f"{number} of {len(chosen)}, {caught} caught, about {left:.0f} minutes left", file=sys.stderr, flush=True)
    print(f"{caught} of {len(chosen)} mutants are caught")


if __name__ == "__main__":
    main()
