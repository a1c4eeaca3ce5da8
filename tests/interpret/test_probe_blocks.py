"""Probes find what the vectors encode, and the control task what is memorised."""

import io
import json

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, small_encoder
from rich.console import Console

from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords
from keras_bert_rebuild.interpret.probe_blocks import probe, sampled
from keras_bert_rebuild.interpret.probing import draw_probing

ANIMALS, PLACES, VERBS = ("cat", "dog", "anna", "ben"), ("mat", "paris", "london"), ("sat", "likes")


def texts(count, seed):
    """Texts labelled by whether "red" comes before "blue": their words are always the same ones."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        first, second = ("red", "blue") if rng.random() < 0.5 else ("blue", "red")
        words = ["the", first, rng.choice(ANIMALS), rng.choice(VERBS), "the", second, rng.choice(PLACES)]
        found.append(ClassifiedText(" ".join(words), label=f"{first} first"))
    return found


def sentences(count, seed):
    """Words tagged by what they are."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        words = ("the", str(rng.choice(ANIMALS)), str(rng.choice(VERBS)), "on", str(rng.choice(PLACES)))
        found.append(TaggedWords(words, ("D", "N", "V", "P", "N")))
    return found


@pytest.fixture(scope="module")
def of_texts():
    return probe(small_encoder([]), TOKENIZER, texts(160, 0), texts(80, 1), pooling="mean")


@pytest.fixture(scope="module")
def of_words():
    return probe(small_encoder([]), TOKENIZER, sentences(40, 0), sentences(30, 1))


@pytest.mark.slow
def test_the_order_of_words_is_known_to_the_model_and_not_to_a_bag(of_texts):
    labels = [example.label for example in texts(80, 1)]
    shares = [labels.count(label) / 80 for label in of_texts.labels]
    train = [example.label for example in texts(160, 0)]
    most = max(of_texts.labels, key=train.count)
    assert of_texts.majority == pytest.approx(shares[of_texts.labels.index(most)])
    assert of_texts.words_alone == pytest.approx(of_texts.majority, abs=0.1)
    assert max(of_texts.accuracies) > 0.9
    assert of_texts.counts == (160, 80)


@pytest.mark.slow
def test_words_are_read_from_the_embedding_and_types_are_known_alone(of_words):
    assert of_words.unit == "words"
    assert of_words.labels == ("D", "N", "P", "V")
    assert of_words.counts == (200, 150)
    assert of_words.accuracies[0] == pytest.approx(1.0)
    assert of_words.words_alone == 1.0
    assert of_words.majority == pytest.approx(0.4)


def test_selectivity_is_the_difference_from_the_control_task(of_texts, of_words):
    np.testing.assert_allclose(of_words.selectivities, np.subtract(of_words.accuracies, of_words.controls))
    np.testing.assert_allclose(of_texts.selectivities, np.subtract(of_texts.fitted, of_texts.controls))
    # A handful of word types can be learnt by heart from their own embeddings.
    assert of_words.controls[0] == pytest.approx(1.0)


def test_the_same_call_gives_the_same_record(of_words):
    assert probe(small_encoder([]), TOKENIZER, sentences(40, 0), sentences(30, 1)) == of_words


def test_a_label_that_only_dev_has_counts_as_wrong():
    train, dev = sentences(20, 0), [TaggedWords(("the", "cat"), ("D", "X"))]
    assert max(probe(small_encoder([]), TOKENIZER, train, dev).accuracies) <= 0.5


def test_the_record_is_shown_as_a_table_as_json_and_as_a_curve(of_texts):
    console = Console(file=io.StringIO(), width=100)
    console.print(of_texts.to_tables())
    lines = console.file.getvalue().splitlines()
    assert lines[0].startswith("160 texts to fit, 80 to measure on, 2 labels")
    assert f"{of_texts.accuracies[0]:.3f}" in lines[4]
    assert lines[-2].split()[-1] == f"{of_texts.majority:.3f}"
    values = json.loads(json.dumps(of_texts.to_json(), allow_nan=False))
    assert values["accuracy"] == pytest.approx(of_texts.accuracies, abs=1e-6)
    picture = draw_probing(of_texts, "<model>")
    assert picture.count("<circle") == 2 * 3
    assert "<title>&lt;model&gt;</title>" in picture


def test_a_sample_keeps_the_order_and_depends_on_the_seed_alone():
    assert sampled(range(5), None) == sampled(range(5), 9) == [*range(5)]
    chosen = sampled(range(1000), 50, seed=3)
    assert chosen == sorted(set(chosen)) == sampled(range(1000), 50, seed=3) != sampled(range(1000), 50, seed=4)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([], "probing needs training and dev examples that are all ClassifiedText or all TaggedWords"),
        ([ClassifiedText("cat", label="a"), TaggedWords(("cat",), ("N",))], "got ClassifiedText, TaggedWords"),
        ([ClassifiedText("cat", label=("a", "b"))], "probing needs one label for every text"),
        ([ClassifiedText("cat")], "got None in an example"),
        (
            [ClassifiedText("cat", label="a"), ClassifiedText("dog", "cat", label="b")],
            "examples must all be pairs or all be single texts",
        ),
        ([ClassifiedText("cat", label="a"), ClassifiedText("dog", label="a")], "at least two different labels; they have"),
    ],
)
def test_examples_that_cannot_be_probed_are_refused(train, message):
    with pytest.raises(ValueError, match=message):
        probe(small_encoder([]), TOKENIZER, train, [ClassifiedText("cat", label="a")])
