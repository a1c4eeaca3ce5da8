"""The pages for the first hour: what they quote is what the library says, and their lines run."""

import ast
import json
import re
from pathlib import Path

import pytest
from helpers import minilm
from helpers.guide_pages import blocks, minilm_by_name, run_blocks
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

import keras_bert_rebuild
from keras_bert_rebuild import Reranker, save_pretrained
from keras_bert_rebuild.files.hub import MODELS, SHORT_NAMES

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = Path(keras_bert_rebuild.__file__).parent
VARIES = "…"


def templates():
    """The strings of the package, with `VARIES` for what is put into them."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(part.value if isinstance(part, ast.Constant) else VARIES for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def is_of(message, template):
    """Whether a quoted message is a string of the package, or a part of it."""
    return re.search(".*".join(map(re.escape, message.split(VARIES))), template, re.DOTALL) is not None


def test_every_quoted_message_is_one_of_the_library():
    quoted = [block.strip() for language, block in blocks(DOCS / "when-it-fails.md") if language == "text"]
    assert len(quoted) > 15
    strings = templates()
    for message in quoted:
        assert any(is_of(message, template) for template in strings), message


def test_a_message_with_other_words_is_none_of_the_library():
    assert is_of("got … of …", "expected x; got … of ….")
    assert not is_of("got … in …", "expected x; got … of ….")


def test_a_page_for_users_names_no_test_of_ours():
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name != "contributing"]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"`tests/|`tox -e|\bthe goal\b", text) == [], page.name


def test_the_figures_of_a_step_are_those_of_the_comparison():
    pages = [path.read_text(encoding="utf-8") for path in (DOCS.parent / "README.md", DOCS / "comparison.md")]
    for figure in ("1.47 s", "2.19 times", "1.78 s", "1.34 times", "1.3 to 1.6"):
        assert all(figure in " ".join(page.split()) for page in pages), figure


def test_every_named_model_is_known_with_its_parameters():
    text = (DOCS / "choose.md").read_text(encoding="utf-8").split("## How long")[0]
    named = re.findall(r"`([\w.-]+)`(?: \((\d+) M)?", text.split("|---|")[-1])
    for name, parameters in named:
        assert name in SHORT_NAMES, name
        assert not parameters or MODELS[SHORT_NAMES[name]]["parameters"] == int(parameters), name
    assert len({name for name, _ in named}) > 12


@pytest.mark.slow(torch=True)
@pytest.mark.backend("torch")  # which compiles nothing
@pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM")
def test_the_lines_of_the_ten_jobs_run(tmp_path, monkeypatch, capsys):
    """Models that are too large for a test are small ones of the same name."""
    bert, reranker = tmp_path / "bert", tmp_path / "reranker"
    save_pretrained(small_encoder(["mlm", "nsp"], max_position_embeddings=400), bert, vocabulary=TOKENIZER)
    small_task(Reranker, objective="binary").save(reranker)
    others = {"google-bert/bert-base-uncased": bert, "google-bert/bert-base-cased": bert}
    others["cross-encoder/ms-marco-MiniLM-L6-v2"] = reranker
    folder = tmp_path / "here"
    folder.mkdir()
    for part in ("train", "dev"):
        (folder / f"{part}.csv").write_text("text,label\nthe cat sat,cat\nthe dog sat,dog\n" * 4)
        (folder / f"{part}.conll").write_text("Anna B-PER\nlikes O\nParis B-LOC\n\n" * 4)
        answer = {"id": "1", "question": "who likes paris", "answers": [{"text": "anna", "answer_start": 0}]}
        paragraph = {"context": "anna likes paris", "qas": [answer]}
        (folder / f"{part}.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]}))
    monkeypatch.chdir(folder)
    with minilm_by_name(others):
        namespace = run_blocks(DOCS / "jobs.md")
    out = capsys.readouterr().out
    assert "(2, 384)" in out
    assert re.search(r"d1\s+How to change a tyre", out)
    assert isinstance(namespace["answer"].text, str)


def test_every_job_of_the_table_has_three_lines():
    found = blocks(DOCS / "jobs.md")
    assert [len([line for line in block.splitlines() if line]) for _, block in found] == [3] * 10
