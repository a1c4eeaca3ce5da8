"""SavedModels, run in a process that has only TensorFlow and tensorflow-text."""

import itertools

import keras
import numpy as np
import pytest
from eight_scripts import TEXTS, answers, small_export, static_export
from foreign import run_foreign
from helpers import small_tokenizers
from helpers.small_tasks import TOKENIZER, small_encoder

import keras_bert_rebuild
from keras_bert_rebuild import Reranker, SentenceEmbedder, SparseEmbedder, load_tokenizer
from keras_bert_rebuild.export import saved_model
from keras_bert_rebuild.tasks.embedding_model import embedding_model
from keras_bert_rebuild.tasks.model_of_task import model_with_head

pytestmark = pytest.mark.backend("tensorflow")


@pytest.mark.slow(torch=True)
def test_text_goes_in_and_vectors_come_out(tmp_path, rng):
    model, tokenizer = static_export(rng)
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "served", poolings=("cls", "mean"), normalize=True)
    assert b"_XlaMustCompile" not in (tmp_path / "served" / "saved_model.pb").read_bytes()
    got = run_foreign("tensorflow", tmp_path / "served", TEXTS, tmp_path)
    pooled = embedding_model(model, ("cls", "mean"), normalize=True, any_length=True)
    np.testing.assert_allclose(got["sentence_embedding"], answers(pooled, tokenizer, TEXTS)[1][0], atol=1e-5)
    np.testing.assert_allclose(got["pair_sentence_embedding"], answers(pooled, tokenizer, TEXTS, TEXTS[::-1])[1][0], atol=1e-5)
    expected = keras.ops.convert_to_numpy(pooled([np.array([[2, 6, 7, 3]]), np.zeros((1, 4))]))
    np.testing.assert_allclose(got["ids_sentence_embedding"], expected, atol=1e-5)


@pytest.mark.slow(torch=True)
def test_a_classifier_answers_with_labels_and_tokens_with_their_ids(tmp_path, rng):
    model, tokenizer = small_export(rng, ["classification", "token_classification"])
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "served", max_len=40)
    got = run_foreign("tensorflow", tmp_path / "served", TEXTS, tmp_path)
    encoded, (logits, of_tokens) = answers(model, tokenizer, TEXTS)
    np.testing.assert_array_equal(got["input_ids"], encoded.ids)
    np.testing.assert_allclose(got["logits"], logits, atol=1e-5)
    np.testing.assert_allclose(got["token_classification"], of_tokens, atol=1e-5)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(got["probabilities"], exponentials / exponentials.sum(-1, keepdims=True), atol=1e-5)
    assert [label.decode() for label in got["label"]] == [model.config.labels[i] for i in logits.argmax(-1)]


@pytest.mark.slow(torch=True)
def test_empty_batches_have_empty_answers(tmp_path, rng):
    import tensorflow as tf

    model, tokenizer = small_export(rng, ["classification", "token_classification"])
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "served", max_len=40)
    served, none = tf.saved_model.load(str(tmp_path / "served")).signatures, tf.constant([], tf.string)
    rows = {width: {name: tf.zeros((0, width), tf.int32) for name in ("input_ids", "token_type_ids")} for width in (0, 7)}
    for signature, inputs, width in (
        ("serving_default", {"text": none}, 1),
        ("pairs", {"text": none, "second_text": none}, 1),
        ("ids", rows[0], 1),
        ("ids", rows[7], 7),
    ):
        shapes = {name: tuple(value.shape) for name, value in served[signature](**inputs).items()}
        labels = len(model.config.labels)
        ids = {} if signature == "ids" else {"input_ids": (0, width)}
        assert shapes == {
            "logits": (0, labels),
            "probabilities": (0, labels),
            "label": (0,),
            "token_classification": (0, width, labels),
            **ids,
        }


@pytest.mark.slow(torch=True)
def test_the_tokenizer_in_the_graph_has_every_setting(tmp_path, rng):
    model, tokenizer = small_export(rng, ["token_classification"])
    tokenizer = tokenizer.with_options(cased=False, strip_accents=False, tokenize_chinese_chars=False, truncation_side="left")
    keras_bert_rebuild.export(model, tokenizer, tmp_path / "served", max_len=40)
    got = run_foreign("tensorflow", tmp_path / "served", TEXTS, tmp_path)
    expected = tokenizer.encode_batch(TEXTS, max_len=40, pad_to="longest").ids
    np.testing.assert_array_equal(got["input_ids"], expected)
    assert (expected != small_export(rng)[1].encode_batch(TEXTS, max_len=40, pad_to="longest").ids).any()
    assert load_tokenizer(tmp_path / "served") == tokenizer


def test_only_wordpiece_tokenizers_go_into_a_graph(tmp_path):
    tokenizer, model = small_tokenizers.with_encoder(small_tokenizers.pipeline, tmp_path, ())
    with pytest.raises(ValueError, match="takes text through a WordPieceTokenizer without added_tokens; got PipelineTokenizer"):
        keras_bert_rebuild.export(model, tokenizer, tmp_path / "served")
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize("labels", [("score",), ("a", "b")])
def test_a_number_has_no_probability_and_no_label(monkeypatch, labels):
    said = {} if len(labels) == 1 else {"problem_type": "regression"}
    assert list(_served_answer(monkeypatch, labels=labels, **said)) == ["logits"]


@pytest.mark.parametrize("labels", [("a",), ("a", "b", "c")])
def test_multi_label_answers_have_a_probability_each_and_no_single_label(monkeypatch, labels):
    answer = _served_answer(monkeypatch, labels=labels, problem_type="multi_label_classification")
    assert list(answer) == ["logits", "probabilities"]
    np.testing.assert_allclose(answer["probabilities"], 1 / (1 + np.exp(-np.array(answer["logits"]))), atol=1e-6)


def _served_answer(monkeypatch, **config):
    monkeypatch.setattr(saved_model, "TensorFlowWordPiece", lambda *arguments: None)  # it is given ids
    served = saved_model._Served(small_encoder(["classification"], **config), TOKENIZER, 40)
    ids = np.array([[2, 5, 6, 3]])
    return served.on_ids({"input_ids": ids, "token_type_ids": ids * 0})


def test_a_folder_of_another_kind_is_not_changed(tmp_path, rng):
    model, tokenizer = small_export(rng)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="holds a model and not an exported model"):
        keras_bert_rebuild.export(model, tokenizer, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.slow(torch=True)
def test_tasks_that_search_are_served_with_their_prompts_and_pairs(tmp_path, rng):
    import tensorflow as tf

    model, tokenizer = small_export(rng, ["mlm"])
    prompts = {"prompts": {"query": "word word "}, "truncate": True}
    encoder = model_with_head(model, ())
    for name, task in (
        ("vectors", SentenceEmbedder(encoder, tokenizer, poolings=("weightedmean", "lasttoken"), **prompts)),
        ("words", SparseEmbedder(model, tokenizer, **prompts)),
        ("scores", Reranker.from_encoder(encoder, tokenizer, truncate=True)),
    ):
        keras_bert_rebuild.export(task, None, tmp_path / name)
        signatures = tf.saved_model.load(str(tmp_path / name)).signatures
        if name == "scores":
            pairs = list(itertools.pairwise(TEXTS))
            first, second = (tf.constant(list(side)) for side in zip(*pairs, strict=True))
            got = signatures["serving_default"](text=first, second_text=second)["score"]
            np.testing.assert_allclose(got.numpy()[:, 0], task.scores_of(pairs), atol=1e-5)
            continue
        for signature, expected in (("query", task.queries(TEXTS)), ("document", task.documents(TEXTS))):
            (got,) = signatures[signature](text=tf.constant(TEXTS)).values()
            for row, vector in zip(got.numpy(), expected, strict=True):
                other = np.zeros_like(row)
                other[vector[0] if name == "words" else slice(None)] = vector[1] if name == "words" else vector
                np.testing.assert_allclose(row, other, atol=1e-5)
