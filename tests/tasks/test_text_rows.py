"""Windows over texts of any length, and their predictions in batches of similar length, in order; JAX compiles programs ahead."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from helpers.kernel_checks import compiled_programs
from helpers.small_tasks import TOKENIZER, WORDS, sentence, small_encoder, small_task
from helpers.small_tokenizers import byte_level_bpe
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import Reranker, SparseEmbedder, TextClassifier, TokenClassifier
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords, TextGroup
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks import row_predictions
from keras_bert_rebuild.tasks.row_predictions import compile_predictions_ahead, predict_rows
from keras_bert_rebuild.tasks.text_rows import buckets_for, encode_windows, shortened
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer

TEXTS = st.lists(st.lists(st.sampled_from([*WORDS, "cats", "unlike", "xyz"]), max_size=30).map(" ".join), min_size=1, max_size=5)


def content(text):
    return TOKENIZER.encode_flat([text])[0].tolist()


@given(TEXTS, st.integers(8, 20), st.integers(0, 1))
def test_every_token_of_a_text_is_used_exactly_once_and_in_order(texts, max_len, stride):
    windows = encode_windows(TOKENIZER, texts, max_len=max_len, stride=stride)
    assert windows.examples.tolist() == sorted(windows.examples)
    assert set(windows.examples) == set(range(len(texts)))
    for number, text in enumerate(texts):
        rows = np.flatnonzero(windows.examples == number)
        assert all(len(windows.ids[row]) <= max_len for row in rows)
        assert [i for row in rows for i in windows.ids[row][windows.best[row]].tolist()] == content(text)
        if len(content(text)) + 2 <= max_len:
            assert [windows.ids[row].tolist() for row in rows] == [[2, *content(text), 3]]


@given(TEXTS, TEXTS, st.integers(10, 20), st.sampled_from([None, 0, 1]))
def test_one_text_of_a_pair_is_cut_into_windows_and_the_other_to_at_most_half_the_length(firsts, seconds, max_len, side):
    count = min(len(firsts), len(seconds))
    firsts, seconds = firsts[:count], seconds[:count]
    windows = encode_windows(TOKENIZER, firsts, seconds, max_len=max_len, stride=1, side=side)
    for number, both in enumerate(zip(firsts, seconds, strict=True)):
        lengths = [len(content(text)) for text in both]
        cut = side if side is not None else int(lengths[1] > lengths[0])
        rows = np.flatnonzero(windows.examples == number)
        shown = [i for row in rows for i in windows.ids[row][windows.best[row] & (windows.sides[row] == cut)].tolist()]
        assert shown == content(both[cut])
        for row in rows:
            other = windows.ids[row][windows.sides[row] == 1 - cut].tolist()
            assert other == content(both[1 - cut])[: len(other)]
            assert len(other) == lengths[1 - cut] or len(other) <= (max_len - 3) // 2
            assert len(windows.ids[row]) <= max_len
            assert (windows.segments[row][windows.sides[row] == 1] == 1).all()


@given(st.lists(st.sampled_from([*WORDS, "unlikes", "cats"]), max_size=12), st.integers(1, 12), st.booleans())
def test_a_shortened_text_is_the_longest_prefix_of_whole_words_that_fits(words, limit, keep_end):
    whole = " ".join(words)
    short = shortened(TOKENIZER, [whole], limit, keep_end)[0]
    assert (whole.endswith if keep_end else whole.startswith)(short)
    assert len(content(short)) <= limit
    left = short.split()
    assert left == (words[len(words) - len(left) :] if keep_end else words[: len(left)]) or len(content(whole.split()[0])) > limit


def test_one_word_longer_than_the_limit_is_cut_inside():
    assert shortened(TOKENIZER, ["unlikes unlikes"], 2) == ["unlike"]
    assert shortened(TOKENIZER, ["unlikes"], 2, keep_end=True) == ["likes"]


def test_the_space_after_the_last_word_is_left_out_where_it_would_be_a_token(tmp_path):
    byte_level_bpe(tmp_path)
    tokenizer = ByteLevelBPETokenizer.from_pretrained(tmp_path)
    text = "The harbour was quiet in the hour"
    for limit in range(1, len(tokenizer.tokenize(text))):
        assert len(tokenizer.tokenize(shortened(tokenizer, [text], limit)[0])) <= limit


def test_offsets_of_windows_point_into_the_whole_text():
    text = sentence(np.random.default_rng(0), 60)
    windows = encode_windows(TOKENIZER, [text], max_len=12, stride=3)
    for ids, offsets, words in zip(windows.ids, windows.offsets, windows.word_ids, strict=True):
        for i, (start, end), word in zip(ids, offsets, words, strict=True):
            assert word < 0 or text[start:end] == TOKENIZER.tokens[int(i)]


@pytest.mark.parametrize("side", [0, 1])
def test_a_text_may_be_limited_to_less_than_fits(side):
    windows = encode_windows(TOKENIZER, ["the cat sat"], ["the dog sat"], max_len=40, stride=1, side=side, shortest=2)
    assert np.sum(windows.sides[0] == 1 - side) == 2
    assert np.sum(windows.sides[0] == side) == 3


def test_lengths_are_limited_to_the_longest_row():
    assert buckets_for((), 40)[-1] == 40
    assert buckets_for((), 8) == [8]
    assert max(buckets_for((), 512)) == 512


def test_four_threads_get_the_answers_of_one():
    task = small_task(TextClassifier, labels=["cat", "dog"])
    questions = [["the cat sat " * (1 + i % 4)] * (1 + i % 3) for i in range(48)]
    expected = [[round(one.probability, 4) for one in task(texts)] for texts in questions]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(task, questions))
    assert [[round(one.probability, 4) for one in answers] for answers in found] == expected


def test_the_other_text_of_a_pair_is_cut_where_the_tokenizer_cuts():
    first, second = " ".join(WORDS[:17]), " ".join(WORDS[::-1])
    left = TOKENIZER.with_options(truncation_side="left")
    for limited, count in ((9, 9), (None, 10)):  # by its own limit, or to half the length without the special tokens
        for tokenizer, words in ((TOKENIZER, second.split()[:count]), (left, second.split()[-count:])):
            windows = encode_windows(tokenizer, [first], [second], max_len=24, stride=2, side=0, shortest=limited)
            for offsets, sides in zip(windows.offsets, windows.sides, strict=True):
                assert [second[start:stop] for start, stop in offsets[sides == 1]] == words


ON_JAX = pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")


class Recorded:
    """A model that records the shapes of its batches."""

    def __init__(self, model):
        self.model, self.shapes = model, []

    def predict_on_batch(self, x):
        self.shapes.append(x[0].shape)
        return self.model.predict_on_batch(x)


def test_results_come_in_the_order_of_the_rows_for_any_batches(rng):
    model = small_encoder(["token_classification"], labels=("a", "b", "c"))
    rows = [rng.integers(5, 20, length) for length in (3, 38, 17, 5, 20, 3, 9)]
    inputs, padding = model_inputs([tensor.name for tensor in model.inputs], rows, [row * 0 for row in rows], 0)
    recorded, said = Recorded(model), []
    options = {"max_len": 40, "batch_size": 4, "per_token": True, "progress": lambda *counts: said.append(counts)}
    got = predict_rows(recorded, inputs, padding, **options)
    for row, answer in zip(rows, got, strict=True):
        alone = keras.ops.convert_to_numpy(model.predict_on_batch([row[None], row[None] * 0]))[0]
        np.testing.assert_allclose(answer, alone, atol=1e-5)
    assert {shape[1] for shape in recorded.shapes} <= set(buckets_for((), 40))
    assert all(shape[0] in (1, 2, 4) for shape in recorded.shapes)
    assert said[-1] == (7, 7)


@ON_JAX
@pytest.mark.parametrize("is_accelerator", [False, True])
def test_an_accelerator_compiles_all_lengths_at_once(is_accelerator, monkeypatch, rng):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    texts = [sentence(rng, words) for words in (3, 38, 17, 5, 20, 3, 9)]
    with compiled_programs() as programs:
        answers = task(texts, batch_size=3)
    threads = [thread for name, thread in programs if name == "jit(answer)"]
    assert len(threads) > 1
    assert set(threads) == {"compile-ahead" if is_accelerator else "MainThread"}
    with compiled_programs() as programs:
        assert task(texts, batch_size=3) == answers
    assert "jit(answer)" not in dict(programs)


@ON_JAX
def test_only_tasks_that_predict_the_rows_of_their_examples_compile_them_ahead(monkeypatch):
    compiled = []
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    monkeypatch.setattr(row_predictions, "compiled_ahead", lambda model, batches: compiled.append((model, len(batches))))
    groups = [TextGroup("the cat", "the cat sat", ("the dog sat",))]
    tasks = {
        small_task(TextClassifier, labels=["cat", "dog"]): [ClassifiedText("the cat sat"), ClassifiedText("the cat " * 15)],
        small_task(TokenClassifier, labels=["cat", "dog"]): [TaggedWords(("the", "cat"), None)],
        small_task(Reranker): groups,
        small_task(SparseEmbedder): groups,
    }
    for task, examples in tasks.items():
        compile_predictions_ahead(task, task.encode(examples), 1)
    classifier, tagger, *_ = tasks
    assert compiled == [(classifier.model, 2), (tagger.model, 1)]
