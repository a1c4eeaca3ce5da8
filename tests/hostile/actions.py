"""The actions on hostile files: everything that a user would do with good ones."""

import contextlib
import html.parser
import io
import sys
import warnings
import xml.etree.ElementTree

import numpy as np
from helpers.small_search import WholeNumbers

from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.data.retrieval import documents_in, read_judgements, read_queries, read_run
from keras_bert_rebuild.files.reading import parsed_json
from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.interpret.attribution import Attribution
from keras_bert_rebuild.keras_2_models import load_keras_2_model
from keras_bert_rebuild.pretrained import from_pretrained
from keras_bert_rebuild.recipes.pretraining.recipe import read_recipe
from keras_bert_rebuild.recipes.run_folder import RunFolder
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.tasks.metrics.ranking import ranking_scores
from keras_bert_rebuild.tasks.saved_task import load_task
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer
from keras_bert_rebuild.training.lora import load_lora
from keras_bert_rebuild.training.state.checkpoint import read_checkpoint

KINDS = {"csv": "classification", "tsv": "classification", "jsonl": "classification", "conll": "tagging", "json": "questions"}


class BrokenPromiseError(AssertionError):
    """The command line did something other than answer or print one sentence."""


def load(folder, file):
    """Inspect a checkpoint as a user would who received it, then load it."""
    command("inspect", "--model", path_of(folder, file))
    from_pretrained(path_of(folder, file))


def describe(folder, file):
    """Explain a config."""
    command("explain", "--model", folder / file)


TEXTS = ["the cat sat on the mat"]
# What a task of a kind is asked; others are called with texts.
ASKED = {
    "question_answering": lambda task: task(["who likes paris"], ["anna likes paris"]),
    "multiple_choice": lambda task: task(TEXTS, [["on the mat", "in london"]]),
    "reranking": lambda task: task.rank("who sat", TEXTS),
    "late_interaction": lambda task: task.scores_of("who sat", TEXTS),
}


def answer(folder, file):
    """Answer with a task."""
    del file
    task = load_task(folder)
    ASKED.get(task.kind, lambda task: task(TEXTS))(task)


class Constant(WholeNumbers):
    """A retriever that takes no time."""

    def documents(self, texts):
        vector = np.ones(self.width, "float32")
        return (vector for _ in texts)


def retrieval(folder, file):
    """Read judgements and measure with them, read a run or queries, or index a corpus."""
    path = folder / file
    if file == "corpus.jsonl":
        Index.open(folder / "built", Constant()).add(path)
    elif file.startswith("corpus"):
        for _ in documents_in(path):
            pass
    elif file.startswith("queries"):
        read_queries(path)
    elif file.endswith(".run"):
        ranking_scores({"q1": {"d2": 1}}, read_run(path))
    else:
        ranking_scores(read_judgements(path), {"q1": {"d2": 1.0, "d3": 0.5}})


def recipe(folder, file):
    """Read a recipe."""
    read_recipe(folder / file)


def curves(folder, file):
    """Draw the curves of a run: a picture in which nothing runs."""
    del file
    command("curves", folder)
    if (folder / "curves.svg").is_file():
        nothing_runs((folder / "curves.svg").read_text(encoding="utf-8"))
        xml.etree.ElementTree.parse(folder / "curves.svg")


def attribution(folder, file):
    """Show an attribution: a page in which nothing runs."""
    values = parsed_json(folder / file)
    nothing_runs(Attribution.from_json(values).to_html())


def keras_2(folder, file):
    """Load a model of Keras 2."""
    load_keras_2_model(folder / file)


def tokenize(folder, file):
    """Cut texts."""
    del file
    load_tokenizer(folder).encode_batch(["the cat sat", "anna [MASK] \u212b\U0001f642", "a" * 40, "aaab" * 300])


def store(folder, file):
    """Verify a store, and read what training reads."""
    del file
    found = TokenStore(folder)
    found.verify()
    found.ids_at(np.arange(found.num_tokens))


def labelled(folder, file):
    """Read examples."""
    read_examples(folder / file, KINDS[file.removeprefix("a.").removesuffix(".xz")])


def corpus(folder, file):
    """Read a corpus."""
    for block in CorpusReader(folder / file).blocks():
        assert block.documents


def settings(folder, file):
    """Read settings, and resume their run."""
    read_yaml(folder / file)
    RunFolder(folder, {"seed": 1, "lengths": [128, 512], "model": {"hidden_size": 8}})


def lora(folder, file):
    """Add the matrices of a file to a model."""
    from helpers.small_tasks import small_encoder

    load_lora(small_encoder(), folder / file)


def checkpoint(folder, file):
    """Read a checkpoint of a training."""
    del file
    found = read_checkpoint(folder)
    arrays = found.arrays()
    for name in arrays.names:
        arrays.read(name)


def path_of(folder, file):
    """The folder, where such a checkpoint is a folder, or the file."""
    return folder / file if file.endswith((".keras", ".h5")) and "tf_" not in file else folder


class Page(html.parser.HTMLParser):
    """Notes in a page or picture what a browser would run."""

    def __init__(self):
        super().__init__()
        self.runs = []

    def handle_starttag(self, tag, attributes):
        active = [name for name, value in attributes if name.startswith("on") or "javascript:" in (value or "").lower()]
        if active or tag in ("script", "iframe", "object", "embed", "foreignobject", "image", "img", "base", "form"):
            self.runs.append(f"<{tag} {' '.join(active)}>")


def nothing_runs(text):
    """Refuse a page or a picture in which a browser would run or load something."""
    page = Page()
    page.feed(text)
    if page.runs:
        raise BrokenPromiseError(f"executed: a browser would run {page.runs[0][:100]!r}")


def command(*arguments):
    """Run `keras-bert`; its output may contain no control character."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    shown = out.getvalue() + err.getvalue()
    if code not in (0, 2) or "Traceback" in shown or "out of memory" in shown:
        raise BrokenPromiseError(f"exit code {code}: {shown[-300:]}")
    if code == 2 and not err.getvalue().startswith("keras-bert "):
        raise BrokenPromiseError(f"no sentence: {err.getvalue()[:300]!r}")
    bad = [char for char in shown if not char.isprintable() and char != "\n"]
    if bad:
        raise BrokenPromiseError(f"printed {bad[:5]!r}")


def outcome(action, folder, file):
    """The outcome of an input: "answered", "refused", or what was wrong."""
    warnings.simplefilter("ignore")
    try:
        globals()[action](folder, file)
    except (ValueError, OSError) as error:
        text = str(error)
        if not text or len(text) >= 20_000:
            return f"no sentence: {text[:200]!r}"
        # The settings of a task are read together with what other files say.
        named = file != "task.json" or folder.name in text or any(path.name in text for path in folder.rglob("*"))
        return "refused" if named else f"no file named: {text[:200]!r}"
    except BaseException as error:  # also the panics of Rust, which are no Exception
        frames = []
        trace = sys.exc_info()[2]
        while trace is not None:
            frames.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
            trace = trace.tb_next
        return f"{type(error).__name__}: {str(error)[:150]!r} at {' '.join(frames[-4:])}"
    return "answered"
