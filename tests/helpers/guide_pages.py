"""The tutorial and the guides of the site: their blocks are run, what each prints is the text below it, what it draws its picture.

`KERAS_BACKEND=torch PYTHONPATH=.:tests python tests/helpers/guide_pages.py [NAME ...]` writes the outputs into the pages. With
`--folder FOLDER` what a page wrote is retained in `FOLDER/NAME`.
"""

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import minilm
from helpers.loopback_hub import LoopbackHub, asked_by_the_client
from keras_bert_rebuild.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LEFT_OUT = "..."
PICTURE = re.compile(r"\.\./images/(\w+\.svg)")


def blocks(page):
    """Language and text of every block of a page, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@contextmanager
def minilm_by_name(others=()):
    """While it runs, all-MiniLM-L6-v2 is downloaded from a hub on the loopback interface, which has it from the wheel.

    Args:
        others: repository to folder, of further models of that hub.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as cache:
        hub = LoopbackHub({"sentence-transformers/all-MiniLM-L6-v2": minilm.FOLDER} | dict(others))
        with asked_by_the_client(hub, patch, Path(cache)):
            yield


def run_blocks(page):
    """Run the blocks marked as Python and sh in the current folder; returns the names that their Python defines."""
    namespace = {"__name__": "__main__"}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, page.name, "exec"), namespace)
        elif language == "sh":
            run_shell(block)
    return namespace


def run_shell(block, stdout=None):
    """Run a block command by command; `keras-bert` in this process, which has imported everything, all else in bash.

    Args:
        block: the commands.
        stdout: a file for what bash prints, as `subprocess.run` takes it.
    """
    rest = ""
    for line in block.replace("\\\n", " ").splitlines(keepends=True):
        if not rest and line.startswith("keras-bert "):
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
            continue
        rest += line
        if not re.search(r"<<'END'", rest) or line == "END\n":
            sys.stdout.flush()
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            subprocess.run(["bash", "-euc", rest], check=True, env=os.environ | {"PATH": path}, stdout=stdout)
            rest = ""
    assert not rest


def run_guide(page):
    """The text of a page with every output as its blocks print it now, in the current folder.

    An output is a block of text that follows a block of Python or sh. Lines of three dots in it stay, with as many lines of the
    output between them as the page has.
    """
    text = page.read_text(encoding="utf-8")
    namespace, parts, end, printed = {"__name__": "__main__"}, [], 0, None
    for match in BLOCK.finditer(text):
        between, (language, block) = text[end : match.start()], match.groups()
        if language == "text" and printed is not None and not between.strip():
            block = elided(printed, block)
        printed = run_block(language, block, namespace, page.name) if language in ("python", "sh") else None
        parts += [between, f"```{language}\n{block}```\n"]
        end = match.end()
    return "".join([*parts, text[end:]])


def drawn_pictures(text):
    """The pictures of a page that its blocks drew in a folder of the current one: name to text."""
    return {name: path.read_text(encoding="utf-8") for name in PICTURE.findall(text) for path in Path().rglob(name)}


def run_block(language, block, namespace, name):
    """What a block prints."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        with contextlib.redirect_stdout(file):
            if language == "python":
                exec(compile(block, name, "exec"), namespace)
            else:
                run_shell(block, stdout=file)
        file.seek(0)
        return file.read()


def elided(printed, old):
    """An output, with lines left out where the old one leaves them out: a part between dots begins at its first line."""
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    first, *others = (part.splitlines() for part in re.split(rf"^{re.escape(LEFT_OUT)}\n", old, flags=re.MULTILINE))
    if not others:
        return "\n".join(lines) + "\n"
    shown, at = lines[: len(first)], len(first)
    for part in others[:-1]:
        alike = [without_numbers(line) for line in lines]
        at = alike.index(without_numbers(part[0]), at)
        shown += [LEFT_OUT, *lines[at : at + len(part)]]
        at += len(part)
    return "\n".join([*shown, LEFT_OUT, *lines[len(lines) - len(others[-1]) :]]) + "\n"


def without_numbers(text):
    """A text for comparison: processors round differently, and times differ anyway."""
    return re.sub(r"[ \t─━-]+", " ", re.sub(r"[\d.,]*\d|e[-+]", "0", text))


def update(page, folder):
    """Write what the blocks print, run in this folder, into the page, and what they draw into its pictures."""
    folder.mkdir(parents=True)
    with contextlib.chdir(folder), minilm_by_name():
        text = run_guide(page)
        for name, picture in drawn_pictures(text).items():
            (DOCS / "images" / name).write_text(picture, encoding="utf-8")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="pages by name (default: all)")
    parser.add_argument("--folder", type=Path, help="a folder for what they write (default: a temporary one)")
    args = parser.parse_args()
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as temporary:
        for page in PAGES:
            if page.stem in args.names or not args.names:
                update(page, (args.folder or Path(temporary)) / page.stem)
