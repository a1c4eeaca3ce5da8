"""Reranking: scores of pairs, windows, drawn texts, training with each objective, folders."""

import itertools

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, WORDS, plain_logits, sentence, small_encoder, small_task, trained

from keras_bert_rebuild import Reranker, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, RankedText, TextGroup
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.tasks.metrics.ranking import reranking_scores
from keras_bert_rebuild.tasks.objectives import RERANKING_OBJECTIVES

PLACES = ("mat", "london", "paris")
PETS = ("cat", "dog", "anna")
GROUPS = [TextGroup(f"where sat {pet} ?", f"{pet} sat in {place}") for pet, place in zip(PETS, PLACES, strict=True)]
GRADED = [
    RankedText(f"where sat {pet} ?", text, grade)
    for pet in PETS[:2]
    for text, grade in ((f"{pet} sat on the mat", 2), (f"{pet} likes red", 1), ("blue and red", 0))
]
TAUGHT = [
    TextGroup("where sat cat ?", "cat sat in paris", ("cat likes red", "ben likes london"), (3.0, 1.0, -2.0)),
    TextGroup("where sat dog ?", "dog sat on the mat", ("dog likes red", "a blue mat"), (4.0, 0.5, -1.0)),
]


def test_a_score_is_the_maximum_over_windows_that_each_have_the_whole_query(rng):
    task = small_task(Reranker, max_len=20, stride=4)
    pairs = [(sentence(rng, 4), sentence(rng, 3)), (sentence(rng, 5), sentence(rng, 45))]
    scores = task.scores_of(pairs)
    windows = task.windows(*zip(*pairs, strict=True), side=1)
    assert np.bincount(windows.examples).tolist()[0] == 1
    assert np.bincount(windows.examples)[1] > 2
    logits = [plain_logits(task.model, *row, "Classification")[0] for row in zip(windows.ids, windows.segments, strict=True)]
    for number, (query, _) in enumerate(pairs):
        of_pair = [logit for logit, example in zip(logits, windows.examples, strict=True) if example == number]
        np.testing.assert_allclose(scores[number], 1 / (1 + np.exp(-max(of_pair))), atol=1e-5)
        for row in np.flatnonzero(windows.examples == number):
            assert windows.ids[row][1 : 1 + len(query.split())].tolist() == TOKENIZER.encode_batch([query]).ids[0][1:-1].tolist()
    linear = small_task(Reranker, max_len=20, stride=4, activation="linear").scores_of(pairs)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-linear)), atol=1e-6)


def test_texts_are_ranked_best_first_and_equal_ones_in_their_order():
    task = small_task(Reranker)
    texts = ["the cat", "a dog", "the cat", "red and blue"]
    ranking = task.rank("who ?", texts)
    scores = task.scores_of([("who ?", text) for text in texts])
    assert [one.index for one in ranking] == sorted(range(4), key=lambda i: (-scores[i], i))
    assert all(one.text == texts[one.index] and one.score == pytest.approx(scores[one.index], abs=1e-6) for one in ranking)
    assert task.rank("who ?", texts, top_k=2) == ranking[:2]


@pytest.mark.parametrize(
    ("objective", "examples"),
    [
        ("listwise", GROUPS),
        pytest.param("graded", GRADED, marks=pytest.mark.slow),
        pytest.param("pairwise", GRADED, marks=pytest.mark.slow),
        pytest.param("binary", GRADED, marks=pytest.mark.slow),
        pytest.param("lambda", GRADED, marks=pytest.mark.slow),
        pytest.param("margin_mse", TAUGHT, marks=pytest.mark.slow),
        pytest.param("mse", GRADED, marks=pytest.mark.slow),
        pytest.param("list_net", TAUGHT, marks=pytest.mark.slow),
    ],
)
def test_each_objective_learns_to_rank_and_the_task_is_loaded_from_its_folder(objective, examples, tmp_path):
    range_ = {"score_range": (0, 2)} if objective == "graded" else {}
    task = Reranker.from_encoder(small_encoder(), TOKENIZER, max_len=24, objective=objective, negatives=2, **range_)
    first, last = trained(task, examples, epochs=40, rate=1e-2)
    assert last < first / 2
    assert task.scores(examples, task.predict_examples(examples))["mrr@10"] == 1.0
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert isinstance(again, Reranker)
    assert again.settings() == task.settings()
    assert again.predict_examples(examples) == task.predict_examples(examples)


def test_drawn_texts_are_a_function_of_seed_and_epoch_and_never_answer_the_query():
    groups = [TextGroup(f"who likes {word} ?", f"anna likes {word}") for word in WORDS]
    groups.append(TextGroup(groups[0].query, "ben likes the mat"))  # another text to find for an equal query
    task = small_task(Reranker, negatives=3)
    make = lambda seed: task.batches(task.encode(groups), batch_size=4, seed=seed)  # noqa: E731
    one, other = make(7), make(7)
    _ = other.batch(5, 0)  # whatever was asked before
    for epoch in (0, 1):
        for index in range(len(one)):
            for a, b in zip(one.batch(epoch, index)[0], other.batch(epoch, index)[0], strict=True):
                np.testing.assert_array_equal(a, b)
    first, second, another = one.drawn(0).texts, one.drawn(1).texts, make(8).drawn(0).texts
    assert (first[:, 0] == second[:, 0]).all()
    assert (first[:, 1:] != second[:, 1:]).any()
    assert (first[:, 1:] != another[:, 1:]).any()
    right = {0: {0, len(WORDS)}, len(WORDS): {0, len(WORDS)}}
    for epoch in range(4):
        drawn = one.drawn(epoch)
        assert drawn.counts.all()
        for number, texts in enumerate(drawn.texts.tolist()):
            assert len(set(texts)) == 4
            assert not set(texts[1:]) & right.get(number, {number})


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_row_of_a_query_and_a_drawn_text_is_that_of_the_tokenizer(rng, side):
    tokenizer = TOKENIZER.with_options(truncation_side=side)
    groups = [TextGroup(sentence(rng, 3 + i), sentence(rng, words)) for i, words in enumerate((20, 9, 6, 3, 0))]
    task = Reranker.from_encoder(small_encoder(), tokenizer, max_len=16, negatives=3)
    batches = task.batches(task.encode(groups), batch_size=5, seed=1)
    drawn = batches.drawn(0)
    (ids, segments), labels = batches.batch(0, 0)
    order = batches.batches(0)[0].indexes
    pairs = [(groups[i].query, groups[text].positive) for i in order for text in drawn.texts[i]]
    expected = tokenizer.encode_batch(*map(list, zip(*pairs, strict=True)), max_len=16, truncation="only_second")
    for row, (wanted, of_segment) in enumerate(zip(expected.ids, expected.segments, strict=True)):
        assert ids[row][: len(wanted)].tolist() == wanted.tolist()
        assert not ids[row][len(wanted) :].any()
        assert segments[row][: len(wanted)].tolist() == of_segment.tolist()
    assert labels[:, 0].reshape(5, 4).tolist() == [[1, 0, 0, 0]] * 5


def test_given_texts_come_first_then_drawn_ones_and_scores_of_a_teacher_admit_none():
    given = TextGroup("who ?", "anna", ("ben", "the cat", "a dog"), (3.0, 2.0, 1.0, 0.0))
    few = TextGroup("where ?", "paris", ("london",), (5.0, 4.0))
    task = small_task(Reranker, negatives=2)
    batches = task.batches(task.encode([given, few]), batch_size=2, seed=0)
    chosen = set()
    for epoch in range(8):
        drawn = batches.drawn(epoch)
        assert drawn.texts[0, 0] == 0
        chosen |= {frozenset(drawn.texts[0, 1:].tolist())}
        assert drawn.texts[1].tolist() == [4, 5, 0]  # the text to find, the given one, and that of the other query
    assert chosen == set(map(frozenset, itertools.combinations((1, 2, 3), 2)))
    taught = small_task(Reranker, negatives=2, objective="margin_mse")
    drawn = taught.batches(taught.encode([given, few]), batch_size=2, seed=0).drawn(0)
    assert drawn.counts.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert drawn.labels[1].tolist() == [5, 4, 0]


def test_settings_suit_the_examples():
    suited = lambda examples, **given: Reranker.settings_for(  # noqa: E731
        examples, {"objective": None, "negatives": None, "positive_weight": None, **given}
    )
    assert suited(GROUPS) == {"objective": "binary", "negatives": 4}
    assert suited(TAUGHT) == {"objective": "margin_mse", "negatives": 2}
    assert suited(GRADED) == {"objective": "graded", "negatives": 2, "score_range": (0, 2)}
    assert suited(GRADED, objective="lambda", positive_weight=2.0)["objective"] == "lambda"
    with pytest.raises(ValueError, match="different labels to learn their order; all 2 have 1"):
        suited([RankedText("a", "b", 1), RankedText("c", "d", 1)])


def test_scores_compare_the_texts_of_a_query_and_all_pairs():
    examples = [RankedText("a", "x", 1), RankedText("a", "y", 0), RankedText("b", "x", 0), RankedText("b", "z", 0)]
    found = reranking_scores(examples, [0.2, 0.9, 0.1, 0.0], ("mrr@10", "map"))
    assert found == {"mrr@10": 0.5, "map": 0.5, "average_precision": 0.5}
    shares = [RankedText("a", "x", 0.5), RankedText("a", "y", 0.0)]
    assert reranking_scores(shares, [0.2, 0.1], ("ndcg@10",))["ndcg@10"] == 1.0
    with pytest.raises(ValueError, match="got only one of these"):
        reranking_scores([RankedText("a", "x", 1)], [0.1], ("map",))


def test_groups_without_other_texts_are_evaluated_among_those_of_other_queries():
    task = small_task(Reranker)
    groups = [*GROUPS, TextGroup(GROUPS[0].query, "the mat")]
    answers = task.predict_examples(groups)
    assert set(answers[1]) == {group.positive for group in groups}
    assert set(answers[0]) == {group.positive for group in groups[:3]}  # not the other right answer
    assert answers == task.predict_examples(groups)
    assert set(task.predict_examples([TAUGHT[0], GROUPS[1]])[1]) == {GROUPS[1].positive}
    row = task.row(TAUGHT[0], task.predict_examples(TAUGHT)[0])
    assert sorted(row["texts"]) == sorted((TAUGHT[0].positive, *TAUGHT[0].negatives))
    assert row["scores"] == sorted(row["scores"], reverse=True)


def test_files_have_groups_or_texts_with_labels(tmp_path):
    (tmp_path / "a.tsv").write_text("query\tpassage\tlabel\nwho\tanna\t1\nwho\tpets\t0.5\n")
    assert read_examples(tmp_path / "a.tsv", "ranking") == [RankedText("who", "anna", 1.0), RankedText("who", "pets", 0.5)]
    (tmp_path / "b.jsonl").write_text('{"question": "who", "answer": "anna", "negatives": ["ben"]}\n')
    assert read_examples(tmp_path / "b.jsonl", "ranking") == [TextGroup("who", "anna", ("ben",))]
    (tmp_path / "c.tsv").write_text("who\tanna\nwhere\tparis\n")
    assert read_examples(tmp_path / "c.tsv", "ranking") == [TextGroup("who", "anna"), TextGroup("where", "paris")]
    (tmp_path / "d.tsv").write_text("query\tnote\nwho\tx\n")
    with pytest.raises(ValueError, match=r"expected a text, or a relevant text as positive; got neither in .*d\.tsv, line 2"):
        read_examples(tmp_path / "d.tsv", "ranking")


def test_bad_input_is_one_sentence():
    task = small_task(Reranker)
    for examples, message in (
        ([GROUPS[0], GRADED[0]], "example 1 is a RankedText"),
        ([ClassifiedText("a")], "example 0 is a ClassifiedText"),
        ([RankedText("a", "b", "good", where="x, line 3")], "must be a number; x, line 3 has 'good'"),
    ):
        with pytest.raises(ValueError, match=message):
            task.encode(examples)
    with pytest.raises(ValueError, match="must have a label for training"):
        task.batches(task.encode([RankedText("a", "b")]))
    with pytest.raises(ValueError, match="scores of a teacher; example 0 has none"):
        small_task(Reranker, objective="mse").encode(GROUPS)
    with pytest.raises(ValueError, match="number 0 is 'ab'"):
        task.scores_of(["ab"])
    with pytest.raises(ValueError, match="top_k must be at least 1"):
        task.rank("a", ["b"], top_k=0)
    with pytest.raises(ValueError, match=f"objective must be one of {', '.join(RERANKING_OBJECTIVES)}; got 'cosine'"):
        small_task(Reranker, objective="cosine")
    with pytest.raises(ValueError, match="a Reranker must have one label, its score; the model has 2"):
        Reranker(small_encoder(("classification",), labels=("a", "b")), TOKENIZER)
