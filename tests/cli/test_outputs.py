"""What every verb does with an existing output: exit code 2, one sentence, and nothing is changed."""

import os
import threading

import pytest
from helpers.command_line import run_verb

from keras_bert_rebuild.files.locked import acquire, lock_file, now_doing, release

# Verb: its other arguments, what it reads and the suffix of its output.
FILES = {
    "vocab": (["corpus.txt"], "corpus.txt", ".txt"),
    "predict": (["--model", "model", "--input", "in.jsonl"], "in.jsonl", ".jsonl"),
    "fill": (["model", "--input", "in.jsonl"], "in.jsonl", ".jsonl"),
    "curves": (["run"], "run/metrics.csv", ".svg"),
    "embed": (["corpus.txt", "--model", "model"], "corpus.txt", ".npy"),
    "why": (["the cat", "--model", "model"], "model/config.json", ".html"),
    "attention": (["the cat", "--model", "model"], "model/config.json", ".html"),
    "lens": (["the cat", "--model", "model", "--format", "html"], "model/config.json", ".html"),
    "probe": (["--model", "model", "--train", "in.jsonl", "--dev", "in.jsonl", "--format", "svg"], "in.jsonl", ".svg"),
    "search": (["index", "--queries", "queries.tsv"], "queries.tsv", ".tsv"),
    "mine": (["in.jsonl", "--model", "model"], "in.jsonl", ".jsonl"),
}
FOLDERS = {
    "convert": (["--model", "model", "--format", "huggingface"], "model", ""),
    "export": (["--model", "model", "--format", "onnx"], "model", ""),
    "demo": (["--corpus", "corpus"], "corpus", ""),
    "index": (["corpus.txt", "--model", "model"], "model", ""),
}
RUNS = {
    "prepare": (["corpus", "--tokenizer", "vocab.txt"], "corpus", ""),
    "pretrain": (["tokens"], "tokens", ""),
    "distill": (["tokens", "--teacher", "model"], "tokens", ""),
    "finetune": (["classification", "--model", "model", "--train", "in.jsonl", "--dev", "in.jsonl"], "model", ""),
}
VERBS = FILES | FOLDERS | RUNS


@pytest.fixture(autouse=True)
def inputs(tmp_path, monkeypatch):
    """The inputs of the verbs, as far as they are read before an output is refused."""
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "corpus.txt": "the cat sat\n",
        "corpus/a.txt": "the cat sat\n",
        "in.jsonl": '{"text": "the cat", "label": "x"}\n',
        "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n",
        "model/config.json": "{}",
        "model/vocab.txt": "[PAD]\n",
        "tokens/index.json": "{}",
        "tokens/vocab.txt": "[PAD]\n",
        "run/settings.yaml": "steps: 1\n",
        "run/metrics.csv": "step,loss\n1,2.0\n2,1.0\n",
        "index/search.json": "{}",
        "queries.tsv": "q1\tthe cat\n",
        "mine/notes.txt": "mine",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)


def state(folder):
    """The contents of a folder: targets of links, bytes of files, permissions."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (content, path.lstat().st_mode)
    return found


def refused(verb, capsys, folder, output, *more, given=None):
    """The message of a verb that must change nothing."""
    before = state(folder)
    arguments = [*(given or VERBS[verb][0]), *more]
    arguments += ["--output", output]
    said = run_verb(verb, capsys, *arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith(f"keras-bert {verb}: ")
    assert said.err.count("\n") == 1, said.err
    assert state(folder) == before
    return said.err


@pytest.mark.parametrize("verb", FILES)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_text("of the user, with spaces"), "so it is not replaced"),
        (lambda path: path.symlink_to("nowhere"), "a broken link"),
        (os.mkfifo, "a broken link, a pipe or a device"),
    ],
    ids=["folder", "other kind", "dangling link", "pipe"],
)
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
def test_a_file_of_another_kind_stays(verb, capsys, tmp_path, make, message, overwrite):
    output = tmp_path / f"out{FILES[verb][2]}"
    make(output)
    assert message in refused(verb, capsys, tmp_path, output, *overwrite)


OWN = {
    "vocab": b"[PAD]\n[UNK]\n",
    "predict": b'{"text": "a", "label": "x", "probability": 0.5}\n',
    "fill": b'{"text": "a", "masks": []}\n',
    "curves": b"<svg/>",
    "embed": b"\x93NUMPY",
    "attention": b"<!doctype html>",
    "why": b"<!doctype html>",
    "lens": b"<!doctype html>",
    "probe": b"<svg/>",
    "search": b"q1 Q0 d1 1 0.5 mine\n",
    "mine": b'{"query": "a", "positive": "b", "negatives": []}\n',
}


@pytest.mark.parametrize("verb", FILES)
def test_an_existing_file_is_replaced_only_with_overwrite(verb, capsys, tmp_path):
    output = tmp_path / f"out{FILES[verb][2]}"
    output.write_bytes(OWN[verb])
    assert "exists already: choose another output, or --overwrite" in refused(verb, capsys, tmp_path, output)


@pytest.mark.parametrize("verb", FILES)
@pytest.mark.parametrize("how", ["path", "dots", "link", "hard link", "folder link"])
def test_an_input_is_refused_as_output_under_any_name(verb, capsys, tmp_path, how):
    given = tmp_path / FILES[verb][1]
    linked = tmp_path / f"other{given.suffix}"
    if how == "path":
        output = given
    elif how == "dots":
        output = given.parent / ".." / given.parent.name / given.name
    elif how == "folder link":
        (tmp_path / "door").symlink_to(given.parent)
        output = tmp_path / "door" / given.name
    else:
        output = linked
        (linked.symlink_to if how == "link" else linked.hardlink_to)(given)
    said = refused(verb, capsys, tmp_path, output, "--overwrite")
    if given.suffix == FILES[verb][2]:  # otherwise the suffix is reported first
        assert "must not be the input" in said


@pytest.mark.parametrize("verb", ["predict", "fill", "embed", "attention", "lens", "probe", "mine"])
def test_nothing_is_written_into_a_model_that_is_read(verb, capsys, tmp_path):
    (tmp_path / "door").symlink_to("model")
    for folder in ("model", "door", "run/../model"):
        assert "which is read" in refused(verb, capsys, tmp_path, tmp_path / folder / f"out{FILES[verb][2]}")


@pytest.mark.parametrize("verb", FILES)
@pytest.mark.parametrize("name", ["out.pdf", "out.npz", "out.docx"])
def test_an_unknown_suffix_is_refused(verb, capsys, tmp_path, name):
    assert "whose name ends in" in refused(verb, capsys, tmp_path, tmp_path / name)


@pytest.mark.parametrize("verb", FILES)
def test_a_missing_folder_is_reported(verb, capsys, tmp_path):
    assert "No such folder" in refused(verb, capsys, tmp_path, tmp_path / "no" / f"out{FILES[verb][2]}")
    assert "No such folder" in refused(verb, capsys, tmp_path, tmp_path / "corpus.txt" / f"out{FILES[verb][2]}")


@pytest.mark.parametrize("verb", VERBS)
def test_missing_write_permission_is_reported_before_the_work(verb, capsys, tmp_path, monkeypatch):
    """Root may write everywhere, so the permission check is replaced by one that always refuses."""

    def read_only(path, flags, mode=0o777, **options):
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied", os.fsdecode(path))
        return opened(path, flags, mode, **options)

    opened = os.open
    monkeypatch.setattr(os, "open", read_only)
    output = tmp_path / f"out{VERBS[verb][2]}"
    assert "Permission denied" in refused(verb, capsys, tmp_path, output)


@pytest.mark.parametrize("verb", FOLDERS | RUNS)
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("corpus.txt", "corpus.txt is a file"),
        ("corpus.txt/inside", "corpus.txt"),
        ("mine", "mine"),
        ("model", ""),
        ("tokens", ""),
        ("run", ""),
    ],
)
def test_a_folder_of_another_kind_stays(verb, capsys, tmp_path, output, message):
    if (verb, output) in (("prepare", "tokens"), ("pretrain", "run"), ("distill", "run"), ("finetune", "run")):
        return  # its own kind, which is resumed where it is the same run
    assert message in refused(verb, capsys, tmp_path, tmp_path / output)


@pytest.mark.parametrize(("verb", "own"), [("convert", "model"), ("export", None), ("demo", None)])
def test_overwrite_does_not_replace_a_folder_of_another_kind(verb, own, capsys, tmp_path):
    for output in {"model", "tokens", "run"} - {own}:
        said = refused(verb, capsys, tmp_path, tmp_path / output, "--overwrite")
        assert "choose another output" in said or "must not be the input" in said


def test_a_model_named_as_that_of_a_demo_is_not_replaced(capsys, tmp_path):
    for name in ("bert.keras", "vocab.txt"):
        (tmp_path / "mine" / name).write_text("of the user")
    assert "mine holds a model and not a demo" in refused("demo", capsys, tmp_path, tmp_path / "mine", "--overwrite")


@pytest.mark.parametrize("verb", FOLDERS | RUNS)
def test_an_output_is_neither_an_input_folder_nor_inside_of_one(verb, capsys, tmp_path):
    given = tmp_path / VERBS[verb][1]
    (tmp_path / "door").symlink_to(given)
    for output in (given, tmp_path / "door", given / "inside", tmp_path / "door" / "inside", given / ".." / given.name):
        refused(verb, capsys, tmp_path, output, *(["--overwrite"] if verb in FOLDERS else []))


@pytest.mark.parametrize("verb", FOLDERS | RUNS)
@pytest.mark.parametrize("given", [0, -1])
def test_an_output_is_no_folder_around_an_input(verb, given, capsys, tmp_path):
    arguments = list(VERBS[verb][0])
    # The vocabulary of tokens may be in their folder, where a copy of it, byte for byte, belongs.
    at = [i for i, argument in enumerate(arguments) if argument != "vocab.txt" and (tmp_path / argument).exists()][given]
    (tmp_path / "around").mkdir()
    (tmp_path / arguments[at]).rename(tmp_path / "around" / arguments[at])
    arguments[at] = f"around/{arguments[at]}"
    for overwrite in [(), ("--overwrite",)] if verb in FOLDERS else [()]:
        said = refused(verb, capsys, tmp_path, "around", *overwrite, given=arguments)
        assert f"the output must not contain the input; {arguments[at]} is inside around." in said
    assert "the output must not contain the input" in refused(verb, capsys, tmp_path, "around/..", given=arguments)


def test_a_folder_with_the_input_in_it_is_not_replaced(capsys, tmp_path):
    (tmp_path / "model" / "weights.safetensors").write_text("")
    for given in ("model/weights.safetensors", "model/bert_model.ckpt"):  # the latter is a prefix, not the name of a file
        arguments = ["--model", given, "--format", "huggingface", "--overwrite"]
        assert "must not contain the input" in refused("convert", capsys, tmp_path, tmp_path / "model", given=arguments)


@pytest.mark.parametrize("verb", VERBS)
def test_a_second_run_names_the_first(verb, capsys, tmp_path):
    """The first is a thread here, which the lock treats like another process."""
    output = tmp_path / f"out{VERBS[verb][2]}"
    lock = lock_file(output)
    if verb in RUNS or verb in ("demo", "index"):
        output.mkdir()
        lock = output / ".lock"
    held = []
    now_doing("`keras-bert first`")
    thread = threading.Thread(target=lambda: held.append(acquire(lock)))
    thread.start()
    thread.join()
    said = refused(verb, capsys, tmp_path, output)
    assert f"is being written by `keras-bert first`, process {os.getpid()}, since 2" in said
    release(held[0])
    assert not lock.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_after_a_killed_run_the_second_runs_and_removes_what_it_left(verb, capsys, tmp_path):
    output = tmp_path / f"out{VERBS[verb][2]}"
    lock, left = lock_file(output), tmp_path / f".{output.name}.0abcdef_.writing"
    if verb in RUNS or verb in ("demo", "index"):
        output.mkdir()
        lock = output / ".lock"
        left = output / ".bert.keras.0abcdef_.writing" if verb == "demo" else lock
    holder = lock.with_name(f"{lock.name}.holder")
    lock.touch()
    holder.write_text('{"process": 1, "doing": "`keras-bert first`", "since": "2026-01-01 00:00:00"}')
    if verb in FOLDERS and left != lock:
        left.mkdir()
    elif left != lock:
        left.write_text("half")
    arguments = [*VERBS[verb][0], "--output", output]
    said = run_verb(verb, capsys, *arguments)  # most then reject the inputs used here
    assert "is being written" not in said.err
    assert not lock.exists()
    assert not holder.exists()
    assert not left.exists()
