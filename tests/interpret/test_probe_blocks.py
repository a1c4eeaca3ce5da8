"""The vectors of every depth are those of the model cut there; probes find what they encode, and the control what is memorised."""

import io
import json

import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import TOKENIZER, small_encoder
from helpers.tiny_families import modules, name_of_module, tiny_config
from rich.console import Console

from keras_bert_rebuild import build_model
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords
from keras_bert_rebuild.interpret.block_vectors import BlockVectors
from keras_bert_rebuild.interpret.probe_blocks import probe, sampled
from keras_bert_rebuild.interpret.probing import draw_probing

TEXTS = ["the cat sat", "the dog sat on the red mat in paris .", "anna"]


def whole(model, text, pair=None):
    """The output of a model without heads for one text."""
    encoding = TOKENIZER.encode_batch([text], None if pair is None else [pair])
    given = {"Input-Token": encoding.ids[0][None], "Input-Segment": encoding.segments[0][None]}
    inputs = [given[tensor.name] for tensor in model.inputs]
    return np.asarray(model.predict(inputs if len(inputs) > 1 else inputs[0], verbose=0))[0]


@pytest.mark.parametrize("module", modules(), ids=name_of_module)
def test_the_last_depth_is_the_output_of_the_encoder(module, rng):
    model = spread(build_model(tiny_config(module), []), rng)
    reader = BlockVectors(model, TOKENIZER, batch_size=2)
    assert reader.depths == ("embedding", "block 1", "block 2")
    vectors, first = reader.of_texts(TEXTS), reader.of_texts(TEXTS, pooling="cls")
    assert vectors.shape == (3, 3, 16)
    for i, text in enumerate(TEXTS):
        states = whole(model, text)
        np.testing.assert_allclose(vectors[-1, i], states.mean(0), atol=1e-4)
        np.testing.assert_allclose(first[-1, i], states[0], atol=1e-4)


def test_a_word_has_the_vector_of_its_first_token_also_in_windows():
    model = small_encoder([])
    long = ["the", "cats", "sat", "."] * 6
    vectors, sentences, words = BlockVectors(model, TOKENIZER, batch_size=3).of_words([["unlike", "anna"], long])
    assert sentences.tolist() == [0, 0, *[1] * 24]
    assert words.tolist() == [0, 1, *range(24)]
    np.testing.assert_allclose(vectors[-1, :2], whole(model, "unlike anna")[[1, 3]], atol=1e-4)
    np.testing.assert_allclose(vectors[-1, 2:], whole(model, " ".join(long))[1:-1][FIRST], atol=1e-4)
    short, _, numbers = BlockVectors(model, TOKENIZER, max_len=12).of_words([long])
    assert numbers.tolist() == [*range(24)]
    np.testing.assert_allclose(short[0, 0], vectors[0, 2], atol=1e-5)


# "cats" has two tokens: the first tokens of 24 words.
FIRST = [token for four in range(6) for token in (5 * four, 5 * four + 1, 5 * four + 3, 5 * four + 4)]


def test_texts_longer_than_the_model_are_cut_and_pairs_are_read():
    model = small_encoder([])
    reader = BlockVectors(model, TOKENIZER, max_len=10)
    vectors = reader.of_texts(["the cat " * 30, "the cat the cat the cat the cat"])
    np.testing.assert_allclose(vectors[:, 0], vectors[:, 1], atol=1e-5)
    np.testing.assert_allclose(reader.of_texts(["cat"], ["dog"])[-1, 0], whole(model, "cat", "dog").mean(0), atol=1e-4)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="max_len must be from 8 to 40, the positions of the model; got 50"):
        BlockVectors(small_encoder([]), TOKENIZER, max_len=50)
    with pytest.raises(ValueError, match="pooling must be one of mean, cls; got 'max'"):
        BlockVectors(small_encoder([]), TOKENIZER).of_texts(["cat"], pooling="max")
    with pytest.raises(ValueError, match="tokenizer must be from this library"):
        BlockVectors(small_encoder([]), None)


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
        ([ClassifiedText("cat", label="x"), ClassifiedText("dog", label="y")], "such as 'x'; they have none."),
    ],
)
def test_examples_that_cannot_be_probed_are_refused(train, message):
    with pytest.raises(ValueError, match=message):
        probe(small_encoder([]), TOKENIZER, train, [ClassifiedText("cat", label="a")])
