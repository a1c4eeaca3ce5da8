"""Everything that is saved has a card that the hub's own client reads, and no text of a user is lost."""

import hashlib
import json

import pytest
from helpers.small_tasks import TOKENIZER, small_encoder, small_task
from huggingface_hub import ModelCard, metadata_load
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

from keras_bert_rebuild import (
    LateInteractionEmbedder,
    MultipleChoice,
    QuestionAnswerer,
    Reranker,
    SentenceEmbedder,
    SparseEmbedder,
    TextClassifier,
    TokenClassifier,
    from_pretrained,
    load_task,
    load_tokenizer,
    save_pretrained,
)
from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.pretrained.card_files import base_of, is_unchanged_card, write_card
from keras_bert_rebuild.pretrained.model_card import MODEL, Card, Training, card_text

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BASE = {"language": ["en", "de"], "license": "apache-2.0", "base_model": "someone/base", "base_model_revision": COMMIT}
CARD = Card(
    family="bert",
    kind="classification",
    heads=("classification",),
    sizes={"parameters": 110_000_000},
    labels=("a|b", "<c>"),
    tokenizer=True,
    library="transformers",
    loaded_by="BertForSequenceClassification",
    base=BASE,
    training=Training(
        data={"train": ("train.tsv", 1200), "dev": ("dev|1.tsv", 300)},
        scores={"dev": {"accuracy": 0.875, "matthews": float("nan"), "macro_f1": None}},
        settings={"learning_rate": 3e-5, "seed": 0, "freeze": [], "metric": None, "crf": False, "guide": "/home/someone/guide"},
    ),
)


def read(text, tmp_path):
    """What the hub's own client reads of a card."""
    path = tmp_path / "card.md"
    path.write_text(text)
    return ModelCard.load(path)


def test_the_client_of_the_hub_reads_the_metadata_and_the_scores(tmp_path):
    card = read(card_text(CARD), tmp_path)
    data = card.data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert (data.license, data.language, data.base_model) == ("apache-2.0", ["en", "de"], "someone/base")
    assert data.tags == ["keras_bert_rebuild", "bert"]
    (result,) = data.eval_results
    assert (result.metric_type, result.metric_value) == ("accuracy", 0.875)
    assert (result.dataset_name, result.dataset_split, result.task_type) == ("dev|1.tsv", "dev", "text-classification")
    index = metadata_load(tmp_path / "card.md")["model-index"]
    assert model_index_to_eval_results(eval_results_to_model_index(data.model_name, data.eval_results)) == (
        data.model_name,
        model_index_to_eval_results(index)[1],
    )
    assert f"made from someone/base at the commit `{COMMIT}`" in card.text
    assert r"| dev | dev\|1.tsv | 300 |" in card.text
    assert r"Labels: a\|b, &lt;c&gt;." in card.text
    assert "| learning_rate | 3e-05 |\n| seed | 0 |\n| guide | guide |\n\n" in card.text
    assert "/home" not in card.text


def test_a_card_without_anything_known_has_no_empty_parts(tmp_path):
    card = read(card_text(Card(family="bert")), tmp_path)
    assert set(card.data.to_dict()) == {"library_name", "pipeline_tag", "tags"}
    assert [line for line in card.text.splitlines() if line.startswith("#")] == ["# bert, an encoder", "## Sizes", "## Load it"]


def loading_lines(card, folder):
    """The blocks of code of a card, each a string, with the folder in place of the name."""
    return [block.partition("```")[0].replace(MODEL, str(folder)) for block in card.split("```python\n")[1:]]


TASKS = {
    TextClassifier: ("text-classification", {"labels": ("a", "b")}),
    TokenClassifier: ("token-classification", {"labels": ("O", "B-x", "I-x")}),
    QuestionAnswerer: ("question-answering", {}),
    MultipleChoice: ("multiple-choice", {}),
    SentenceEmbedder: ("sentence-similarity", {}),
    LateInteractionEmbedder: ("sentence-similarity", {}),
    SparseEmbedder: ("feature-extraction", {}),
    Reranker: ("text-ranking", {}),
}
OF_SENTENCES = {
    SentenceEmbedder: "SentenceTransformer",
    LateInteractionEmbedder: "MultiVectorEncoder",
    SparseEmbedder: "SparseEncoder",
    Reranker: "CrossEncoder",
}


@pytest.mark.parametrize("cls", TASKS, ids=lambda cls: cls.kind)
def test_every_task_has_a_card_whose_lines_load_it(cls, tmp_path):
    tag, settings = TASKS[cls]
    task = cls.from_encoder(small_encoder(("mlm",)), TOKENIZER, **settings)
    task.save(tmp_path / "task")
    card = ModelCard.load(tmp_path / "task" / "README.md")
    assert card.data.pipeline_tag == tag
    here, there = loading_lines(card.content, tmp_path / "task")
    names = {}
    exec(here, names)
    assert names["task"].settings() == task.settings()
    assert f"| parameters | {task.model_to_save().count_params():,} |" in card.text
    if cls in OF_SENTENCES:
        assert card.data.library_name == "sentence-transformers"
        assert f"from sentence_transformers import {OF_SENTENCES[cls]}\n" in there
    else:
        architecture = json.loads((tmp_path / "task" / "config.json").read_text())["architectures"][0]
        assert f"from transformers import AutoTokenizer, {architecture}\n" in there


@pytest.mark.parametrize(
    ("format", "library"), [("huggingface", "transformers"), ("google", "keras_bert_rebuild"), ("keras", "keras")]
)
def test_every_format_has_a_card_whose_lines_load_it(format, library, tmp_path):
    model = small_encoder(("mlm", "nsp"))
    save_pretrained(model, tmp_path / "model", format, vocabulary=list(TOKENIZER.vocabulary))
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == (library, "fill-mask")
    here, *there = loading_lines(card.content, tmp_path / "model")
    names = {}
    exec(here, names)
    assert names["model"].count_params() == model.count_params()
    assert names["tokenizer"].tokens == TOKENIZER.tokens
    assert bool(there) == (library == "transformers")


def test_a_tagger_with_transitions_names_no_class_that_would_leave_them_out(tmp_path):
    small_task(TokenClassifier, labels=("O", "B-x"), crf=True).save(tmp_path / "task")
    card = ModelCard.load(tmp_path / "task" / "README.md")
    assert card.data.library_name == "keras_bert_rebuild"
    assert len(loading_lines(card.content, tmp_path)) == 1


@pytest.mark.parametrize(
    "change", [lambda text: "Mine.\n", lambda text: text.replace("## Sizes", "## Sizes, as I see them"), str.upper]
)
def test_a_text_of_the_user_is_kept_and_an_unchanged_card_replaced(change, tmp_path):
    path, folder = tmp_path / "model" / "README.md", tmp_path / "model"
    save_pretrained(small_encoder(), folder)
    first = path.read_text()
    assert is_unchanged_card(path)
    save_pretrained(small_encoder(("mlm",)), folder)
    assert is_unchanged_card(path)
    assert path.read_text() != first
    mine = change(first)
    path.write_text(mine)
    save_pretrained(small_encoder(), folder)
    write_card(folder, small_encoder())
    assert path.read_text() == mine


def test_a_folder_saved_again_keeps_its_base_and_what_the_user_said_of_it(tmp_path):
    save_pretrained(small_encoder(), tmp_path / "first", vocabulary=list(TOKENIZER.vocabulary))
    write_card(tmp_path / "first", small_encoder(), base={**BASE, "datasets": ["glue", "user/data"]})
    card = tmp_path / "first" / "README.md"
    card.write_text(card.read_text().replace("license: apache-2.0", "license: mit"))
    expected = {**BASE, "license": "mit", "datasets": ["glue", "user/data"]}
    model = from_pretrained(tmp_path / "first")
    assert model.load_report.base == expected
    save_pretrained(model, tmp_path / "second")
    TextClassifier.from_encoder(tmp_path / "second", load_tokenizer(tmp_path / "first"), labels=("a", "b")).save(tmp_path / "third")
    load_task(tmp_path / "third").save(tmp_path / "fourth")
    for name in ("second", "third", "fourth"):
        assert base_of(tmp_path / name) == expected


def test_a_folder_of_the_hub_s_cache_is_the_base(tmp_path):
    folder = tmp_path / "models--someone--base" / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: mit\nlanguage: en\nbase_model: other/base\ndatasets: [a/b]\n---\n# A model\n")
    assert base_of(folder) == {"license": "mit", "language": "en", "base_model": "someone/base", "base_model_revision": COMMIT}


@pytest.mark.parametrize(
    "front",
    [
        "license: [mit, {a: b}]\nlanguage: 3\nbase_model: [x, y]\nbase_model_revision: mit",
        "license: '<script>'\nlanguage: |\n  a\n  b\nbase_model: ../../etc",
        "license: &a [*a]",
        "license: mit\n  nonsense: [",
        "- a list",
        "license: mit\nmore: " + "x" * limit("settings_bytes"),
        "license: mit\n# " + "x" * limit("yaml_bytes"),
        "",
    ],
)
def test_metadata_that_cannot_be_used_is_left_out(front, tmp_path):
    (tmp_path / "README.md").write_text(f"---\n{front}\n---\n")
    assert base_of(tmp_path) == {}


def test_thousands_of_results_of_others_are_not_read(tmp_path):
    results = "model-index:\n- name: x\n" + "  results: [" * 40 + "\n- &a b\n"
    (tmp_path / "README.md").write_text(f"---\nlicense: mit\n{results}language: en\n---\n")
    assert base_of(tmp_path) == {"license": "mit", "language": "en"}


def test_a_card_is_the_same_every_time_and_its_last_line_signs_the_rest():
    text = card_text(CARD)
    assert text == card_text(CARD)
    rest, _, line = text.rpartition("<!--")
    assert hashlib.sha256(rest.encode()).hexdigest()[:16] in line
