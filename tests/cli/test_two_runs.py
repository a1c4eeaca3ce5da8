"""Two processes of every verb with one output: the second names the first; a killed one blocks nobody."""

import itertools
import json
import os
import signal

import pytest
from helpers.command_line import save_small_model
from helpers.hostile_inputs import only_exhaustive
from helpers.other_process import finish, start
from helpers.small_tasks import small_task

from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.retrieval import documents_in
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.tasks.text_classifier import TextClassifier

STEPS = ("--batch-size", 2, "--steps", 2)

# Verb: its arguments, and the suffix of its output; its inputs are in `inputs`.
VERBS = {
    "vocab": (("corpus.txt", "--vocab-size", 200), "out.txt"),
    "predict": (("--model", "task", "--input", "in.jsonl"), "out.jsonl"),
    "fill": (("model", "[MASK]"), "out.jsonl"),
    "curves": (("run",), "out.svg"),
    "embed": (("corpus.txt", "--model", "model"), "out.npy"),
    "attention": (("the cat", "--model", "model"), "out.html"),
    "index": (("corpus.txt", "--model", "embedder"), "out"),
    "search": (("index", "--queries", "queries.tsv"), "out.tsv"),
    "mine": (("pairs.jsonl", "--model", "embedder"), "out.jsonl"),
    "convert": (("--model", "model", "--format", "huggingface"), "out"),
    "export": (("--model", "model", "--format", "huggingface"), "out"),
    "prepare": (("corpus.txt", "--tokenizer", "model/vocab.txt", "--processes", 1), "out"),
    "pretrain": (("tokens", "--settings", "pretrain.yaml"), "out"),
    "distill": (("tokens", "--teacher", "model", "--settings", "distill.yaml"), "out"),
    "finetune": (("classification", "--model", "model", "--train", "in.jsonl", "--dev", "in.jsonl", *STEPS), "out"),
    "demo": (("--corpus", "corpus.txt", "--steps", 2), "out"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The inputs of the verbs."""
    folder = tmp_path_factory.mktemp("inputs")
    save_small_model(folder / "model")
    small_task(TextClassifier, labels=["a", "b"]).save(folder / "task")
    small_task(SentenceEmbedder).save(folder / "embedder")
    documents = ("\n".join(f"the cat {i} sat with {i * j} others ." for j in range(9)) for i in range(60))
    (folder / "corpus.txt").write_text("\n\n".join(documents))
    rows = [{"text": "the cat sat", "label": "a"}, {"text": "sat .", "label": "b"}]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 4))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    settings = {"model": sizes, "seq_len": 16, "held_out": 0, "steps": 2, "batch_size": 2}
    (folder / "pretrain.yaml").write_text(json.dumps(settings))  # JSON is YAML
    distilled = {name: value for name, value in settings.items() if name != "model"} | {
        "seq_len": 12
    }  # as the teacher has positions
    (folder / "distill.yaml").write_text(json.dumps(distilled))
    (folder / "run").mkdir()
    (folder / "run" / "settings.yaml").write_text("steps: 1\n")
    (folder / "run" / "metrics.csv").write_text("step,loss\n1,2.0\n2,1.0\n")
    (folder / "queries.tsv").write_text("q1\tthe cat\n")
    pairs = [{"query": f"the cat {i}", "positive": f"sat {i}"} for i in range(9)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    Index.open(folder / "index", folder / "embedder").add(itertools.islice(documents_in(folder / "corpus.txt"), 20))
    prepare(folder / "corpus.txt", folder / "model" / "vocab.txt", folder / "tokens", workers=1)
    return folder


def begin(where, verb, folder, output):
    """Start a verb as a process, in the folder of its inputs."""
    arguments = [*VERBS[verb][0], *("--output", output)]
    before = os.getcwd()
    os.chdir(folder)
    try:
        return start("killed_runs.py", "verb", where, verb, *arguments)
    finally:
        os.chdir(before)


def done(process):
    """Its exit code, and its output where the code is unexpected."""
    code, out, err = finish(process)
    process.stdout.close()
    process.stderr.close()
    assert "Traceback" not in err, err
    return code, out + err


def state(folder, output):
    """The contents of the output without times and speeds, and files next to it that no user put there."""
    path = folder / output
    files = sorted(str(file.relative_to(folder)) for file in ([path] if path.is_file() else path.rglob("*")))
    hidden = [file.name for file in (*folder.iterdir(), *path.glob("*")) if file.name.startswith(".")]
    return files, hidden


@only_exhaustive
@pytest.mark.parametrize("verb", VERBS)
def test_the_second_of_two_processes_names_the_first_which_ends_as_if_alone(verb, inputs, tmp_path):
    for name in os.listdir(inputs):
        (tmp_path / name).symlink_to(inputs / name)
    end = VERBS[verb][1]
    alone = begin("never", verb, tmp_path, f"alone-{end}")
    first = begin("lock", verb, tmp_path, end)
    os.waitpid(first.pid, os.WUNTRACED)
    assert first.poll() is None
    try:
        code, said = done(begin("never", verb, tmp_path, end))
    finally:
        os.kill(first.pid, signal.SIGCONT)
    ends = [done(alone), done(first)]
    assert code == 2, said
    assert f"is being written by `keras-bert {verb}`, process {first.pid}, since 2" in said
    assert [end[0] for end in ends] == [0, 0], ends
    files, hidden = state(tmp_path, end)
    expected, _ = state(tmp_path, f"alone-{end}")
    assert [file.replace(end, "", 1) for file in files] == [file.replace(f"alone-{end}", "", 1) for file in expected]
    assert hidden == []


@only_exhaustive
@pytest.mark.parametrize("where", ["lock", "write"])
@pytest.mark.parametrize("verb", VERBS)
def test_after_a_killed_process_the_second_does_its_work_and_nothing_is_left_over(verb, where, inputs, tmp_path):
    for name in os.listdir(inputs):
        (tmp_path / name).symlink_to(inputs / name)
    end = VERBS[verb][1]
    first = begin(where, verb, tmp_path, end)
    if where == "lock":
        os.waitpid(first.pid, os.WUNTRACED)
        os.kill(first.pid, signal.SIGKILL)
    code, said = done(first)
    assert code == -signal.SIGKILL, said
    code, said = done(begin("never", verb, tmp_path, end))
    assert code == 0, said
    files, hidden = state(tmp_path, end)
    assert files
    assert hidden == []
