"""Vectors of sentences: pooling, windows, training."""

import json

import keras
import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, sentence, sequence, small_encoder, small_task, trained

from keras_bert_rebuild import SentenceEmbedder, SparseEmbedder, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, ScoredPair
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, UnitModule
from keras_bert_rebuild.tasks import packed_training
from keras_bert_rebuild.tasks.embedder import prompt_text
from keras_bert_rebuild.tasks.metrics import ranking_scores

SUBJECTS = ("the cat", "anna", "the red dog")


def plain_vector(task, text):
    windows = task.encode([ScoredPair(text, text)]).windows
    rows = np.flatnonzero(windows.examples == 0)
    means = [sequence(task.model, windows.ids[row], windows.segments[row])[1].mean(0) for row in rows]
    vector = np.average(means, axis=0, weights=[len(windows.ids[row]) for row in rows])
    return vector / np.linalg.norm(vector), len(rows)


def test_vectors_are_the_means_of_plain_numpy_in_the_order_of_the_texts(rng):
    task = small_task(SentenceEmbedder, max_len=20, stride=4)
    texts = [sentence(rng, words) for words in (3, 50, 1, 18)]
    vectors = task(texts, batch_size=2)
    for text, vector in zip(texts, vectors, strict=True):
        expected, windows = plain_vector(task, text)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
        assert (windows > 1) == (len(text.split()) == 50)
    np.testing.assert_allclose(task.similarity(texts[:2], texts[2:]), np.sum(vectors[:2] * vectors[2:], axis=1), atol=1e-6)


def texts_of_batch(batch):
    """The token ids of the texts of a packed batch, group by group."""
    ids, _, numbers, begins, order = batch
    places = (divmod(int(place), begins.shape[1]) for place in order.ravel())
    return [ids[row][numbers[row] == begins[row, slot]].tolist() for row, slot in places]


@pytest.mark.slow
def test_cosines_learn_the_scores_of_pairs_and_are_loaded_from_their_folder(tmp_path):
    pairs = [ScoredPair(f"{one} sat", f"{other} sat", 5.0 * (one == other)) for one in SUBJECTS for other in SUBJECTS]
    task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, score_range=(0, 5), max_len=16)
    first, last = trained(task, pairs, epochs=15, rate=1e-2)
    assert last < first / 3
    answers = task.predict_examples(pairs)
    assert min(a for a, p in zip(answers, pairs, strict=True) if p.score) > max(
        a for a, p in zip(answers, pairs, strict=True) if not p.score
    )
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.settings() == task.settings()
    assert again.predict_examples(pairs) == answers
    task.save(tmp_path / "task")  # a second time into the same folder
    told = read_retriever_folder(tmp_path / "task").settings
    assert (told["poolings"], told["normalize"], told["max_len"]) == (("mean",), True, 16)


def test_in_batch_negatives_need_no_scores_and_take_one_window_of_every_text(rng):
    task = small_task(SentenceEmbedder, objective="in_batch_negatives", max_len=12)
    encoded = task.encode([ScoredPair(sentence(rng, 25), "the cat"), ScoredPair("a", "a")])
    batch, labels = task.batches(encoded, batch_size=8)[0]
    assert texts_of_batch(batch)[1:] == [TOKENIZER.encode_batch([text]).ids[0].tolist() for text in ("the cat", "a", "a")]
    assert labels.tolist() == [0.0] * 2
    assert task.loss().get_config()["scale"] == 20


def test_windows_of_a_long_pair_are_separate_pairs(rng):
    task = small_task(SentenceEmbedder, max_len=12, stride=2)
    encoded = task.encode([ScoredPair(sentence(rng, 25), "the cat", 0.5), ScoredPair("a", "a", 1.0)])
    batches = task.batches(encoded, batch_size=8)
    rows = np.bincount(encoded.windows.examples)
    batch, labels = batches[0]
    texts = texts_of_batch(batch)
    assert rows.tolist() == [3, 1, 1, 1]
    assert labels.tolist() == [0.5] * 3 + [1.0]
    assert texts[1] == texts[3] == texts[5]
    assert len({tuple(text) for text in texts}) == 5


def test_replicas_of_tensorflow_have_a_text_per_row_and_both_of_a_pair(monkeypatch):
    pairs = [ScoredPair("the cat", "a", 0.5), ScoredPair("a", "the dog", 1.0), ScoredPair("the red", "a", 0.0)]

    def batch_and_loss():
        task = small_task(SentenceEmbedder, max_len=12)
        inputs, scores = task.batches(task.encode(pairs), 3)[0]
        vectors = task.training_model([keras.ops.convert_to_tensor(values) for values in inputs])
        loss = keras.ops.stop_gradient(task.loss()(keras.ops.convert_to_tensor(scores), vectors))
        return task, inputs, scores.tolist(), float(loss)

    _, inputs, scores, loss = batch_and_loss()
    monkeypatch.setattr(packed_training, "parts_of_batch", lambda model: 2)
    monkeypatch.setattr(packed_training.traits, "gives_replicas_whole_single_batches", lambda: True)
    apart, (ids, _), of_rows, same = batch_and_loss()
    assert apart.training_model is apart.model
    assert [row[row > 0].tolist() for row in ids] == texts_of_batch(inputs)
    assert of_rows == np.repeat(scores, 2).tolist()
    assert same == pytest.approx(loss, rel=1e-5)


POOLED = {
    "cls": lambda states: states[0],
    "max": lambda states: states.max(0),
    "mean": lambda states: states.mean(0),
    "mean_sqrt_len": lambda states: states.sum(0) / len(states) ** 0.5,
    "weightedmean": lambda states: np.average(states, axis=0, weights=np.arange(1, len(states) + 1)),
    "lasttoken": lambda states: states[-1],
}
POOLINGS = [*((name,) for name in POOLED), ("lasttoken", "cls", "weightedmean")]


@pytest.mark.parametrize("poolings", POOLINGS, ids="-".join)
def test_poolings_modules_and_prompts_are_those_of_plain_numpy(rng, poolings):
    kernel, bias = rng.normal(size=(16 * len(poolings), 5)).astype("float32"), rng.normal(size=5).astype("float32")
    task = small_task(
        SentenceEmbedder, poolings=poolings, modules=[DenseModule(kernel, bias, "tanh")], prompts={"query": "who likes "}
    )
    kernel, bias = (keras.ops.convert_to_numpy(variable) for variable in task.modules[0].weights)  # spread
    texts = [sentence(rng, words) for words in (9, 1, 4)]
    for vectors, prompt in ((task(texts), ""), (list(task.queries(texts)), "who likes "), (list(task.documents(texts)), "")):
        for text, vector in zip(texts, vectors, strict=True):
            row = TOKENIZER.encode_batch([prompt + text])
            states = sequence(task.model, row.ids[0], row.segments[0])[1]
            expected = np.tanh(np.concatenate([POOLED[name](states) for name in poolings]) @ kernel + bias)
            np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.parametrize("pooling", POOLED)
def test_tokens_of_a_prompt_can_be_left_out_of_the_pooling(rng, pooling):
    settings = {"poolings": pooling, "prompts": {"query": "who likes "}, "normalize": False, "measure": "dot"}
    task = small_task(SentenceEmbedder, **settings, include_prompt=False, truncate=True)
    texts = [sentence(rng, words) for words in (9, 1)]
    streamed, listed = list(task.queries(texts)), task(texts, prompt="query")
    for text, vector, other in zip(texts, streamed, listed, strict=True):
        row = TOKENIZER.encode_batch(["who likes " + text])
        states = sequence(task.model, row.ids[0], row.segments[0])[1]
        weights = np.arange(1, len(states) + 1)[3:]  # [CLS], who, likes
        pooled = np.average(states[3:], axis=0, weights=weights) if pooling == "weightedmean" else POOLED[pooling](states[3:])
        np.testing.assert_allclose(vector, pooled, atol=1e-5)
        np.testing.assert_allclose(other, pooled, atol=1e-5)


def test_streams_have_the_vectors_of_lists_in_order_for_long_texts_too(rng):
    texts = [sentence(rng, words) for words in (3, 50, 1, 18, 70)]
    for settings in ({}, {"truncate": True}, {"truncate_dim": 5}):
        task = small_task(SentenceEmbedder, max_len=20, stride=4, **settings)
        np.testing.assert_allclose(list(task.stream(iter(texts))), task(texts, batch_size=2), atol=1e-6)
        np.testing.assert_allclose(task(texts), task(texts, batch_size=2), atol=1e-6)
        assert task(texts).shape == (5, task.width)
    cut = small_task(SentenceEmbedder, max_len=20, truncate=True)
    np.testing.assert_allclose(cut(texts[1:2]), cut([" ".join(texts[1].split()[:18])]), atol=1e-6)


def test_vectors_of_queries_and_documents_are_compared_by_their_product(rng):
    texts = [sentence(rng, words) for words in (3, 5)]
    for settings in ({"normalize": False}, {"truncate_dim": 4}):
        task = small_task(SentenceEmbedder, **settings)
        lengths = np.linalg.norm(list(task.documents(texts)), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-6)
        assert np.abs(np.linalg.norm(task(texts), axis=1) - 1).max() > 1e-3
    dot = small_task(SentenceEmbedder, normalize=False, measure="dot")
    np.testing.assert_allclose(list(dot.queries(texts)), dot(texts), atol=1e-6)


def test_a_description_differs_where_vectors_do(tmp_path):
    task = small_task(SentenceEmbedder, modules=[UnitModule()], prompts={"query": "a "})
    same, others = task.description(), [small_task(SentenceEmbedder, **s).description() for s in ({}, {"poolings": "cls"})]
    task.save(tmp_path / "task")
    assert load_task(tmp_path / "task").description() == same
    assert (same["vectors"], same["width"]) == ("dense", 16)
    assert len({json.dumps(each, sort_keys=True) for each in (same, *others)}) == 3
    assert small_task(SentenceEmbedder, seed=6).description()["weights"] != others[0]["weights"]


def test_bad_settings_of_vectors_are_one_sentence():
    for settings, message in (
        ({"poolings": ("mean", "middle")}, "poolings must be some of cls, .*; got mean, middle"),
        ({"poolings": ()}, "each once; got none"),
        ({"prompts": ["a"]}, "prompts must be texts by name"),
        ({"default_prompt": "passage", "prompts": {"a": "b"}}, "got 'passage', and the prompts are a"),
        ({"truncate_dim": 17}, "truncate_dim must be from 1 to 16"),
        ({"measure": "manhattan"}, "measure must be cosine or dot; got 'manhattan'"),
        ({"include_prompt": False}, "needs truncate=True"),
        ({"modules": ["dense"]}, "modules must be DenseModule, .*; got str"),
        ({"modules": [DenseModule(np.zeros((15, 2), "float32"), None, "tanh")]}, "must take the width 16; its weights have 15"),
    ):
        with pytest.raises(ValueError, match=message):
            small_task(SentenceEmbedder, **settings)


def test_bad_input_is_one_sentence():
    task = small_task(SentenceEmbedder, score_range=(0, 5))
    for example, message in (
        (ScoredPair("a", "b", float("nan")), "has nan"),
        (ScoredPair("a", "b", "x", where="f.tsv, line 2"), "f.tsv, line 2 has 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            task.encode([example])
    with pytest.raises(ValueError, match=r"from -5 to 5, where the score_range has cosines 0 and 1 for 0 and 5; example 0 has 6.0"):
        task.batches(task.encode([ScoredPair("a", "b", 6.0)]))
    with pytest.raises(ValueError, match="must have a score"):
        task.batches(task.encode([ScoredPair("a", "b")]))
    with pytest.raises(ValueError, match="texts must be a list; got str"):
        task("the cat")
    with pytest.raises(ValueError, match="as many second texts as first ones, 1; got 2"):
        task.similarity(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="objective must be cosine or in_batch_negatives"):
        small_task(SentenceEmbedder, objective="x")
    with pytest.raises(ValueError, match="must have a BertModel without heads"):
        SentenceEmbedder(small_encoder(["token_classification"], labels=("a", "b")), TOKENIZER)


@pytest.mark.parametrize(
    ("scores", "cosines"),
    [
        ((0.2, 0.9), (0.2, 0.9)),
        ((-0.5, 0.25), (-0.5, 0.25)),
        ((0, 1), (0, 1)),
        ((0.0, 2.2, 5.0), (0.0, 0.44, 1.0)),  # STS-B
        ((1.0, 4.6), (0.2, 0.92)),
        ((-2, 2), (-1, 1)),
    ],
)
def test_scores_up_to_one_are_cosines_and_others_are_divided_by_the_highest_of_their_scale(scores, cosines):
    examples = [ScoredPair("the cat", "a cat", score) for score in scores]
    settings = SentenceEmbedder.settings_for(examples, {"objective": "cosine"})
    task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, **settings)
    np.testing.assert_allclose(task.encode(examples).targets, cosines, rtol=1e-6)
    top = max(1, max(map(abs, np.ceil(scores))))
    assert task.score_range == (0, top)
    assert task.encode([ScoredPair("a", "b", 9.5)]).targets is not None  # only training has limits


def test_labelled_texts_with_perfect_vectors_have_perfect_scores():
    examples = [ClassifiedText("cat dog"[4 * (i % 2) :][:3], label=str(i % 2)) for i in range(400)]
    task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, example_kind="classification")
    answers = task.predict_examples(examples)
    assert max(map(len, answers)) == 100
    scores = task.scores(examples, answers)
    assert scores == {"ndcg@10": 1, "mrr@10": 1, "recall@10": pytest.approx(10 / 199), "map": 1}


def test_scores_of_labelled_texts_are_those_of_the_whole_ranking(rng):
    examples = [ClassifiedText(sentence(rng, 2), label=str(rng.integers(3))) for _ in range(130)]
    task = small_task(SentenceEmbedder, example_kind="classification")
    vectors = task([example.text for example in examples])
    products = (vectors @ vectors.T).astype("float32")
    run = {str(i): {str(j): float(products[i, j]) for j in range(130) if j != i} for i in range(130)}
    judged = {str(i): {str(j): 1 for j in range(130) if j != i and examples[i].label == examples[j].label} for i in range(130)}
    measures = ("ndcg@10", "mrr@10", "recall@10", "map")
    scores = task.scores(examples, task.predict_examples(examples))
    assert scores == pytest.approx(ranking_scores(judged, run, measures), abs=2e-3)  # texts that are equal have no fixed order


def test_an_unknown_name_of_a_prompt_is_refused_and_a_text_is_a_prompt():
    for cls, encoder in ((SentenceEmbedder, small_encoder()), (SparseEmbedder, small_encoder(("mlm",)))):
        task = cls.from_encoder(encoder, TOKENIZER, prompts={"query": "who ", "passage": "a "})
        with pytest.raises(ValueError, match=r"one of query, document, passage, or a text .* got 'qeury'; did you mean query\.$"):
            list(task.stream(["cat"], "qeury")) if cls is SentenceEmbedder else task(["cat"], "qeury")
    assert [prompt_text(task.prompts, name) for name in (None, "query", "document", "passage", "where: ")] == [
        "", "who ", "", "a ", "where: "
    ]  # fmt: skip
