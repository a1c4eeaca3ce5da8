"""Texts and names use the words of CONTRIBUTING.md: what it replaces does not come back. Reads files only."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# The page of the command line has the words of the parser.
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "command-line.md"]
PAGES += [page for page in sorted((ROOT / "examples").iterdir()) if page.suffix in {".py", ".ipynb"}]
PAGES += [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "RESULTS.md"]

# A pattern, what to say for it.
REFUSED = {
    r"not (less|fewer) than": "at least",
    r"not more than|at the (most|least)\b": "at most, at least",
    r"\b(that|which) (is|are) none\b": "unknown, missing, empty",
    r"\bas of `": "see",
    r"\bso many\b(?! that\b)": "n, that many",
    r"\banew\b": "newly initialised, restarted, again",
    r"\brivals?\b": "peer",
    r"\bstretch(es)?\b": "span, segment",
    r"\bmany an?\b": "many",
    r"\bgo(es|ne)? on (on|with|from)\b": "resume",
    r"\bone behind the other\b": "concatenated",
    r"\bone's own\b": "of the user, your own",
    r"\bbeside (its|their) (place|peers)\b": "next to, compared with",
    r"\bin the place of\b": "instead of, in place of",
    r"\b(where|what) lies there\b": "is there",
    r"\b(where(of|in|by|upon)|there(of|in|upon)|hitherto|thence|whence|henceforth|lest|amidst?|upon)\b": "a word of today",
    r"\bin the midst\b": "while, in the middle",
}
# Names that say how a value came about, not what it is.
EMPTY_NAMES = {"found", "known", "given", "chosen", "others", "came"}
# Values that a test passes to a function.
ALLOWED = {"stretch"}


def phrases(text):
    """Every refused phrase of a text, with what to say for it."""
    hits = [(match[0], instead) for pattern, instead in REFUSED.items() for match in re.finditer(pattern, text, re.IGNORECASE)]
    return [f"{phrase!r}: {instead}" for phrase, instead in hits]


def prose(source):
    """The comments and string constants of Python source, docstrings among them: `(line, text)`."""
    comments = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    constants = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    # A phrase may go over the end of a line.
    return sorted(comments + [(node.lineno, re.sub(r"\s+", " ", node.value)) for node in constants])


def empty_names(source):
    """Where a variable or an argument has an empty name, a function is called `of_...`, or a docstring begins with "The same".

    A method may be, since its object says of what: `maps.of_text(0)`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_NAMES:
            yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.arg) and node.arg in EMPTY_NAMES:
            yield f"{node.lineno}: {node.arg}"
        elif (
            isinstance(node, ast.FunctionDef)
            and node.name.startswith("of_")
            and [arg.arg for arg in node.args.args][:1] != ["self"]
        ):
            yield f"{node.lineno}: {node.name}"
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (ast.get_docstring(node) or "").startswith("The same"):
            yield f"{getattr(node, 'lineno', 1)}: The same"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_none_of_the_phrases_that_the_words_of_the_project_replace(page):
    assert phrases(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("folder", ["keras_bert_rebuild", "tests", "benchmarks"])
def test_docstrings_comments_and_strings_have_none_of_them(folder):
    lines = []  # without this file, which has the phrases
    for path in sorted({*(ROOT / folder).rglob("*.py")} - {Path(__file__)}):
        texts = [(line, text) for line, text in prose(path.read_text(encoding="utf-8")) if text not in ALLOWED]
        lines += [f"{path.relative_to(ROOT)}:{line}: {phrase}" for line, text in texts for phrase in phrases(text)]
    assert lines == [], "\n".join(lines)


def test_a_name_says_what_a_thing_is():
    files = sorted((ROOT / "keras_bert_rebuild").rglob("*.py"))
    lines = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in empty_names(path.read_text(encoding="utf-8"))]
    assert lines == [], "\n".join(lines)


def test_every_empty_name_is_reported():
    source = 'def of_rows(given, *others):\n    "The same rows."\n    found, (known, chosen) = 1, 2\n    for came in found: pass'
    reported = [line.partition(": ")[2] for line in empty_names(source)]
    assert sorted(reported) == sorted(["of_rows", "The same", *EMPTY_NAMES])


def test_the_rules_for_contributors_follow_themselves():
    assert phrases(CONTRIBUTING.split("\n## Words\n")[0]) == []


def test_every_row_of_the_words_says_one_thing_and_what_it_replaces():
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", CONTRIBUTING.split("\n## Words\n")[1], re.MULTILINE)
    words = [row[0] for row in rows]
    assert len(words) == len(set(words)) > 15
    assert {"maximum", "offset", "newly initialised", "checkpoint", "span", "epoch", "head", "block"} <= set(words)


@pytest.mark.parametrize("text", ["not less than one", "a name which is none", "weights begun anew", "at the most", "as of `fit`"])
def test_a_refused_phrase_is_found(text):
    assert len(phrases(text)) == 1
    source = f'"""{text.capitalize()}."""\n# {text}\nrefuse("{text}", key=f"{text} {{0}}")\n'
    assert [line for line, found in prose(source) if phrases(found)] == [1, 2, 3, 3]
