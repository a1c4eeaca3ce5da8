"""Hard negatives."""

import numpy as np
import pytest
from helpers.small_search import WholeNumbers, brute_force

from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.mining import MiningSettings, distinct_positives, mine, row_of

PAIRS = [TextGroup(f"query {i % 6}", f"text {i}") for i in range(12)]
CORPUS = [Document(f"d{i}", "", f"text {i}") for i in range(40)]


class Places(WholeNumbers):
    """Vectors of two numbers: texts are `ANGLE` or `ANGLE words`, and the score is the cosine of the difference of angles."""

    def vector(self, text):
        angle = np.deg2rad(float(text.split()[0]))
        return np.array([np.cos(angle), np.sin(angle)], "float32")


def built(corpus, folder, model):
    index = Index.open(folder, model)
    index.add(corpus)
    return index


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return built(CORPUS, tmp_path_factory.mktemp("mine") / "index", WholeNumbers())


def angles(tmp_path, *texts):
    """An index of texts for `Places`."""
    return built([Document(f"d{i}", "", text) for i, text in enumerate(texts)], tmp_path / "angles", Places(width=2))


def test_negatives_are_the_best_texts_that_no_pair_has_for_the_query(index, monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.search.mining._QUERIES", 5)
    done = []
    mined = list(mine(PAIRS, index, MiningSettings(negatives=3), progress=done.append))
    assert done == [5, 5, 2]
    texts = {document.id: document.text for document in CORPUS}
    for pair, found in zip(PAIRS, mined, strict=True):
        right = {other.positive for other in PAIRS if other.query == pair.query}
        best = [texts[name] for name, _ in brute_force(WholeNumbers(), CORPUS, pair.query, 40)]
        assert list(found.group.negatives) == [text for text in best if text not in right][:3]
        assert (found.group.query, found.group.positive) == (pair.query, pair.positive)


def test_ranks_count_what_is_not_known_to_be_right(index):
    best = list(mine(PAIRS, index, MiningSettings(negatives=8)))
    later = list(mine(PAIRS, index, MiningSettings(negatives=5, from_rank=3, to_rank=6)))
    assert [found.group.negatives for found in later] == [found.group.negatives[2:6] for found in best]


def test_known_texts_the_query_itself_and_repeated_texts_are_no_negatives(tmp_path):
    index = angles(tmp_path, "10 a", "10", "10  a", "20 b", "30")
    pairs = [TextGroup("0", "10 a"), TextGroup("30", "20 b"), TextGroup(" 0", "10")]
    mined = list(mine(pairs, index))
    assert [found.group.negatives for found in mined] == [("20 b", "30"), ("10  a", "10"), ("20 b", "30")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["10", "40", "60", "80", "120"]),
        ({"margin": 0.0}, ["40", "60", "80", "120"]),
        ({"margin": 0.2}, ["60", "80", "120"]),  # cos 40° = 0.766, cos 30° = 0.866
        ({"relative_margin": 0.05}, ["40", "60", "80", "120"]),
        ({"relative_margin": 0.5}, ["80", "120"]),  # cos 60° = 0.5 > 0.433
        ({"max_score": 0.6}, ["60", "80", "120"]),
        ({"max_score": 0.6, "margin": 0.4}, ["80", "120"]),
        ({"max_score": -1.0}, []),
        ({"from_rank": 2, "to_rank": 3}, ["40", "60"]),
        ({"from_rank": 2, "to_rank": 3, "max_score": 0.6}, ["60"]),
    ],
)
@pytest.mark.parametrize("inside", [True, False], ids=["positive in the corpus", "elsewhere"])
def test_limits_are_relative_to_the_score_of_the_positive(tmp_path, settings, expected, inside):
    index = angles(tmp_path, "120", "80", "40", "60", "10", *(["30"] if inside else []))
    (found,) = mine([TextGroup("0", "30")], index, MiningSettings(**settings))
    assert list(found.group.negatives) == expected
    np.testing.assert_allclose(found.negative_scores, [np.cos(np.deg2rad(float(text))) for text in expected], rtol=1e-6, atol=1e-7)
    assert index.retriever.seen.count("30") <= 1  # a positive in the corpus is not embedded again
    if "margin" in settings:
        np.testing.assert_allclose(found.positive_score, np.cos(np.deg2rad(30)), rtol=1e-6)


def test_a_relative_margin_below_a_negative_score_is_lower(tmp_path):
    index = angles(tmp_path, "100", "101", "120")
    (found,) = mine([TextGroup("0", "101")], index, MiningSettings(relative_margin=0.5))
    assert found.group.negatives == ("120",)


def test_a_sample_depends_on_the_seed_and_is_in_the_order_of_scores(index):
    draw = lambda seed: [  # noqa: E731
        found.group.negatives for found in mine(PAIRS, index, MiningSettings(negatives=3, sampling="random", seed=seed, to_rank=20))
    ]
    assert draw(1) == draw(1) != draw(2)
    for negatives, found in zip(draw(1), mine(PAIRS, index, MiningSettings(negatives=20)), strict=True):
        order = list(found.group.negatives)
        assert [order.index(text) for text in negatives] == sorted(order.index(text) for text in negatives)


def test_every_rank_is_drawn_about_equally_often(tmp_path):
    index = angles(tmp_path, *map(str, range(1, 11)))
    pairs = [TextGroup("0", f"{i / 1000 + 100}") for i in range(400)]
    drawn = [text for found in mine(pairs, index, MiningSettings(negatives=2, sampling="random")) for text in found.group.negatives]
    counts = [drawn.count(str(i)) for i in range(1, 11)]
    assert sum(counts) == 800
    assert 50 < min(counts) <= max(counts) < 110


def test_a_teacher_scores_the_positive_and_every_negative(index):
    class Lengths:
        def scores_of(self, pairs):
            return [len(query) * 100 + int(text.split()[1]) + 1 / 3 for query, text in pairs]

    for found in mine(PAIRS, index, MiningSettings(negatives=2), Lengths()):
        numbers = [int(text.split()[1]) for text in (found.group.positive, *found.group.negatives)]
        assert row_of(found)["scores"] == [700 + number + 0.333333 for number in numbers]


def test_the_positives_of_all_pairs_are_a_corpus(tmp_path):
    pairs = [TextGroup("a", "x"), TextGroup("b", "y"), TextGroup("c", "x")]
    corpus = distinct_positives(pairs)
    assert corpus == [Document("1", "", "x"), Document("2", "", "y")]
    index = built(corpus, tmp_path / "index", WholeNumbers())
    assert [row_of(found)["negatives"] for found in mine(pairs, index)] == [["y"], ["x"], ["y"]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"negatives": 0}, "expected at least one negative, and ranks from at least 1 up to at least that; got 0, 1 and 100"),
        ({"from_rank": 5, "to_rank": 4}, "got 5, 5 and 4"),
        ({"margin": -0.1}, "margin must be a number of at least 0; got -0.1"),
        ({"relative_margin": float("nan")}, "relative_margin must be a number of at least 0; got nan"),
        ({"sampling": "worst"}, "sampling must be best or random; got 'worst'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MiningSettings(**settings)
