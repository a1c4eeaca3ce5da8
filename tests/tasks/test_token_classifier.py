"""Tags and entities: alignment, windows, training."""

import itertools

import keras
import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, plain_logits, sentence, sequence, small_encoder, small_task, trained

from keras_bert_rebuild import TokenClassifier, load_task
from keras_bert_rebuild.data.labelled.labelled_examples import TaggedText, TaggedWords
from keras_bert_rebuild.layers.conditional_random_field import marginals, viterbi
from keras_bert_rebuild.tasks.tag_schemes import best_tags
from keras_bert_rebuild.training.task_losses import ConditionalRandomFieldLoss

LABELS = ("O", "B-loc", "I-loc", "B-per", "I-per")
SENTENCES = [
    TaggedWords(("anna", "likes", "london", "."), ("B-per", "O", "B-loc", "O")),
    TaggedWords(
        ("ben", "and", "anna", "likes", "red", "paris", ",", "ben"), ("B-per", "O", "B-per", "O", "B-loc", "I-loc", "O", "B-per")
    ),
    TaggedWords(("the", "unlike", "cats", "sat", "in", "london"), ("O", "O", "O", "O", "O", "B-loc")),
]


def plain_log_probabilities(task, words):
    """For the first token of every word, from the window with the most context around it."""
    windows = task.encode([TaggedWords(tuple(words))]).windows
    found = {}
    for ids, numbers, best in zip(windows.ids, windows.word_ids, windows.best, strict=True):
        logits = plain_logits(task.model, ids, ids * 0, "Token-Classification")
        for row, number, is_best in zip(logits, numbers.tolist(), best, strict=True):
            if is_best:
                found.setdefault(number, row - np.log(np.exp(row).sum()))
    return np.stack([found[i] for i in range(len(words))]), len(windows.ids)


def test_tags_are_the_best_legal_ones_of_plain_numpy_over_windows(rng):
    task = small_task(TokenClassifier, labels=LABELS, max_len=16, stride=4)
    texts = [sentence(rng, words).split() for words in (3, 45, 14, 1)]
    for words, answer in zip(texts, task(texts, batch_size=2), strict=True):
        logs, windows = plain_log_probabilities(task, words)
        assert answer.tags == [LABELS[i] for i in best_tags(logs, LABELS, "IOB2")]
        assert (windows > 1) == (len(words) > 14)
        for entity in answer.entities:
            assert entity.text == " ".join(words[entity.start : entity.end])


def test_tags_that_are_not_bio_are_given_word_by_word():
    task = small_task(TokenClassifier, labels=("noun", "other", "verb"))
    answer = task([["the", "cats", "sat"]])[0]
    logs, _ = plain_log_probabilities(task, ["the", "cats", "sat"])
    assert answer.tags == [task.labels[i] for i in logs.argmax(-1)]
    assert answer.entities == []
    text = TaggedText("the cats sat")
    assert task.row(text, *task.predict_examples([text])) == {
        "text": "the cats sat", "words": ["the", "cats", "sat"], "tags": answer.tags
    }  # fmt: skip


@pytest.mark.slow
def test_it_learns_and_is_loaded_from_its_folder(tmp_path):
    labels = TokenClassifier.labels_of(SENTENCES)
    assert labels == LABELS
    task = TokenClassifier.from_encoder(small_encoder(), TOKENIZER, labels=labels, max_len=16)
    first, last = trained(task, SENTENCES, epochs=30, rate=1e-2)
    assert last < first / 3
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    answers = again.predict_examples(SENTENCES)
    assert [tuple(answer.tags) for answer in answers] == [example.tags for example in SENTENCES]
    assert [entity[:4] for entity in answers[1].entities] == [
        ("per", 0, 1, "ben"), ("per", 2, 3, "anna"), ("loc", 4, 6, "red paris"), ("per", 7, 8, "ben")
    ]  # fmt: skip
    text = again(["Ben and Anna likes  red paris, ben"])[0]
    assert [entity[:4] for entity in text.entities] == [
        ("per", 0, 3, "Ben"), ("per", 8, 12, "Anna"), ("loc", 20, 29, "red paris"), ("per", 31, 34, "ben")
    ]  # fmt: skip


def test_only_the_first_token_of_a_word_is_trained_in_the_window_with_the_most_context(rng):
    task = small_task(TokenClassifier, labels=LABELS, max_len=12, stride=3)
    words = ["unlikes", *sentence(rng, 20).split(), "cats", *sentence(rng, 5).split()]
    tags = rng.choice(["O", "B-loc", "B-per"], len(words)).tolist()
    encoded = task.encode([TaggedWords(tuple(words), tuple(tags))])
    trained_on = [target[target >= 0] for target in encoded.targets]
    assert [LABELS[i] for of_row in trained_on for i in of_row] == tags
    assert len(encoded) > 2
    assert (encoded.targets[0][:5] >= 0).tolist() == [False, True, False, False, True]  # [CLS] un ##like ##s the


def test_tags_are_learned_in_their_own_scheme_and_others_in_that_of_the_model():
    example = TaggedWords(("anna", "likes", "red", "paris", "london"), ("I-per", "O", "I-loc", "I-loc", "B-loc"))
    for labels, scheme, tags in (
        (LABELS, "IOB1", ["I-per", "O", "I-loc", "I-loc", "B-loc"]),
        (("O", "I-per", "I-loc", "B-loc"), None, ["I-per", "O", "I-loc", "I-loc", "B-loc"]),
        (LABELS, None, ["B-per", "O", "B-loc", "I-loc", "B-loc"]),
        (("O", "per-B", "loc-B", "loc-I"), None, ["per-B", "O", "loc-B", "loc-I", "loc-B"]),
        (("O", "per", "loc"), None, ["per", "O", "loc", "loc", "loc"]),
        (("O", "B-loc", "I-loc", "L-loc", "U-loc", "B-per", "L-per", "U-per"), None, ["U-per", "O", "B-loc", "L-loc", "U-loc"]),
    ):
        task = small_task(TokenClassifier, labels=labels, scheme=scheme)
        assert task.right_tags([example]) == [tags]
        target = task.encode([example]).targets[0]
        assert [task.labels[i] for i in target[target >= 0]] == tags


@pytest.mark.slow
def test_iob1_is_learned_as_given_and_its_scheme_is_saved(tmp_path):
    examples = [
        TaggedWords(("anna", "likes", "london", "."), ("I-per", "O", "I-loc", "O")),
        TaggedWords(("ben", "anna", "likes", "red", "paris", ",", "ben"), ("I-per", "B-per", "O", "I-loc", "I-loc", "O", "I-per")),
        TaggedWords(("the", "cats", "sat", "in", "london"), ("O", "O", "O", "O", "I-loc")),
    ]
    assert TokenClassifier.scheme_of(examples) == "IOB1"
    labels = TokenClassifier.labels_of(examples)
    assert labels == ("O", "I-loc", "B-per", "I-per")
    task = TokenClassifier.from_encoder(small_encoder(), TOKENIZER, labels=labels, max_len=16)
    trained(task, examples, epochs=30, rate=1e-2)
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.scheme == "IOB1"
    answers = again.predict_examples(examples)
    assert [tuple(answer.tags) for answer in answers] == [example.tags for example in examples]
    assert [entity[:3] for entity in answers[1].entities] == [("per", 0, 1), ("per", 1, 2), ("loc", 3, 5), ("per", 6, 7)]
    assert again.scores(examples, answers)["f1"] == 1
    in_iob2 = [TaggedWords(("anna", "likes", "london"), ("B-per", "O", "B-loc"))]  # the same entities in other tags
    assert again.scores(in_iob2, again.predict_examples(in_iob2))["support"] == 2


def says(task, words, tags):
    """Make the head of a task predict these tags for these words."""
    windows = task.encode([TaggedWords(tuple(words))]).windows
    ids = windows.ids[0]
    _, states = sequence(task.model, ids, ids * 0)
    numbers = [task.labels.index(tag) for tag in ("O", *tags, "O")]
    head = task.model.get_layer("Token-Classification")
    head.kernel.assign(np.linalg.lstsq(states, 4 * np.eye(len(task.labels))[numbers], rcond=None)[0])
    head.bias.assign(np.zeros(len(task.labels)))


def test_a_tagger_of_conll_2003_finds_entities_that_begin_with_i():
    labels = ("B-LOC", "B-MISC", "B-ORG", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O")
    words, tags = ["anna", "likes", "london", "paris", "and", "red"], ["I-PER", "O", "I-LOC", "B-LOC", "O", "I-ORG"]
    for settings, names in (({}, labels), ({"scheme": "IOB1"}, (*labels, "B-PER"))):
        task = small_task(TokenClassifier, labels=names, **settings)
        says(task, words, tags)
        answer = task([words])[0]
        assert answer.tags == tags
        assert [entity[:3] for entity in answer.entities] == [("PER", 0, 1), ("LOC", 2, 3), ("LOC", 3, 4), ("ORG", 5, 6)]


@pytest.mark.parametrize(
    ("labels", "tags", "entities"),
    [
        (("O", "B-PER", "I-PER", "X"), "X B-PER I-PER O X X", [("X", 0, 1), ("PER", 1, 3), ("X", 4, 6)]),
        (("O", "PER", "LOC"), "PER PER LOC O LOC PER", [("PER", 0, 2), ("LOC", 2, 3), ("LOC", 4, 5), ("PER", 5, 6)]),
        (("O", "PER-B", "PER-I", "LOC-B"), "PER-B PER-B PER-I LOC-B O O", [("PER", 0, 1), ("PER", 1, 3), ("LOC", 3, 4)]),
        (("O", "B-PER", "I-PER", "S-PER"), "S-PER B-PER I-PER I-PER O S-PER", [("PER", 0, 1), ("PER", 1, 4), ("PER", 5, 6)]),
        (("O", "B-PER", "S-PER", "E-PER"), "B-PER B-PER E-PER O S-PER O", [("PER", 0, 3), ("PER", 4, 5)]),
    ],
)  # fmt: skip
def test_entities_are_those_that_the_labels_describe(labels, tags, entities):
    task = small_task(TokenClassifier, labels=labels)
    words, tags = ["anna", "likes", "london", "paris", "and", "red"], tags.split()
    says(task, words, tags)
    example = TaggedWords(tuple(words), tuple(tags))
    answer = task([words])[0]
    assert answer.tags == tags
    assert [entity[:3] for entity in answer.entities] == entities
    assert task.right_tags([example]) == [tags]
    scores = task.scores([example], [answer])
    assert (scores["f1"], scores["support"]) == (1, len(entities))
    assert set(TokenClassifier.labels_of([example])) >= set(tags)
    assert list(task.details([example], [answer])["classes"]) == sorted({kind for kind, _, _ in entities})


def test_spans_of_characters_become_tags_of_words():
    example = TaggedText("Anna likes red paris, unlike ben.", ((0, 4, "per"), (11, 20, "loc"), (29, 32, "per")))
    task = small_task(TokenClassifier, labels=TokenClassifier.labels_of([example]))
    tags = ["B-per", "O", "B-loc", "I-loc", "O", "O", "B-per", "O"]
    assert task.right_tags([example]) == [tags]
    offsets = task.predict_examples([example])[0].offsets
    assert [example.text[start:end] for start, end in offsets] == ["Anna", "likes", "red", "paris", ",", "unlike", "ben", "."]


def test_words_without_tokens_are_outside():
    task = small_task(TokenClassifier, labels=LABELS)
    answer = task([["the", "\u200b", "cat"]])[0]
    assert len(answer.tags) == 3
    assert answer.tags[1] == "O"
    assert task([[], ["the"]])[0].tags == []
    assert task([""])[0].tags == []


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (TaggedWords(("a", "of"), ("O",)), "a tag for each word; example 0 has 2 words and 1 tags"),
        (TaggedWords(("a",), (3,)), "must be one of O, B-loc, I-loc, B-per, I-per; example 0 has 3"),
        (TaggedWords(("a",), ("B-x",)), "must be one of O, B-loc, I-loc, B-per, I-per; example 0 has 'B-x'"),
        (TaggedText("a cat", ((2, 6, "per"),), where="x.jsonl, line 2"), "5 characters; x.jsonl, line 2 has 'per' from 2 to 6"),
        (TaggedText("a cat", ((3, 3, "per"),)), "from 3 to 3"),
        (TaggedText("a cat", ((2, 4, "per"), (4, 5, "loc"))), "must have a word that belongs to no other; .*: example 0"),
    ],
)
def test_examples_that_do_not_fit_are_one_sentence(example, message):
    with pytest.raises(ValueError, match=message):
        small_task(TokenClassifier, labels=LABELS).encode([example])


def test_other_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match=r"at least two different tags; they have \['NOUN'\]"):
        TokenClassifier.labels_of([TaggedWords(("a",), ("NOUN",))])
    with pytest.raises(ValueError, match="examples must have at least two different tags; they have none"):
        TokenClassifier.labels_of([TaggedWords(("a",))])
    task = small_task(TokenClassifier, labels=LABELS)
    with pytest.raises(ValueError, match="all be texts or all be lists of words"):
        task(["a cat", ["a", "cat"]])
    with pytest.raises(ValueError, match="texts must be a list; got str"):
        task("a cat")


def chain(words):
    """Tags that cycle through a, b, c with the position in the sentence, for words that carry no information."""
    return TaggedWords(tuple(words), tuple("abc"[i % 3] for i in range(len(words))))


@pytest.fixture(scope="module")
def crf_task():
    examples = [chain(["the"] * count) for count in (2, 3, 5, 7)]
    encoder = small_encoder()
    encoder.get_layer("Embedding-Position").weights[0].assign(np.zeros((40, 16)))
    task = TokenClassifier.from_encoder(encoder, TOKENIZER, labels=("a", "b", "c"), crf=True, max_len=16)
    first, last = trained(task, examples, epochs=60, rate=1e-1)
    return task, examples, first, last


@pytest.mark.slow
def test_a_random_field_learns_which_tag_follows_another(crf_task):
    task, examples, first, last = crf_task
    assert last < first / 10
    assert [tuple(answer.tags) for answer in task.predict_examples(examples)] == [example.tags for example in examples]
    assert task.crf.transitions.argmax(1)[:4].tolist() == [1, 2, 0, 0]


@pytest.mark.slow
def test_a_random_field_is_loaded_from_its_folder_and_from_a_keras_file(tmp_path, crf_task):
    task, examples, _, _ = crf_task
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert np.array_equal(again.crf.transitions, task.crf.transitions)
    assert [answer.tags for answer in again.predict_examples(examples)] == [
        answer.tags for answer in task.predict_examples(examples)
    ]
    task.model.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    x = [np.array([[2, 5, 5, 3]]), np.zeros((1, 4), int)]
    assert np.array_equal(model.predict(x, verbose=0), task.model.predict(x, verbose=0))
    assert isinstance(model.loss, ConditionalRandomFieldLoss)
    batch = x, np.array([[-100, 0, 1, -100]])
    assert model.evaluate(*batch, verbose=0) == pytest.approx(task.model.evaluate(*batch, verbose=0))
    fresh = TokenClassifier.from_encoder(task.model, TOKENIZER, labels=("a", "b", "c"))
    assert fresh.crf is None
    anew = TokenClassifier.from_encoder(task.model, TOKENIZER, labels=("a", "b", "c", "d"), crf=True)
    assert not anew.crf.transitions.any()


def test_words_are_one_chain_for_any_pieces_and_windows(crf_task):
    task = crf_task[0]
    long = ["unlikes", "the"] * 12
    answer = task([long])[0]
    scores, _ = plain_log_probabilities(task, long)
    assert [task.labels.index(tag) for tag in answer.tags] == viterbi(scores, task.crf.transitions).tolist()


def test_entities_of_a_random_field_have_the_probability_of_the_chain(rng):
    task = small_task(TokenClassifier, labels=("O", "B-x", "I-x"), crf=True)
    words = ["anna", "likes", "paris"]
    scores, _ = plain_log_probabilities(task, words)
    own = task.crf.transitions.astype("float64")
    rows = list(itertools.product(range(3), repeat=3))
    weights = [
        np.exp(own[3][a] + own[4][c] + own[a, b] + own[b, c] + scores[0, a] + scores[1, b] + scores[2, c]) for a, b, c in rows
    ]
    shares = np.array([[sum(w for row, w in zip(rows, weights, strict=True) if row[i] == j) for j in range(3)] for i in range(3)])
    np.testing.assert_allclose(marginals(scores, own), shares / sum(weights), rtol=1e-6)
    for entity in task([words])[0].entities:
        chosen = [shares[i][1 if i == entity.start else 2] / sum(weights) for i in range(entity.start, entity.end)]
        assert entity.probability == pytest.approx(np.mean(chosen), rel=1e-4)


def test_weights_of_labels_are_refused_for_chains(crf_task):
    with pytest.raises(ValueError, match="class_weights must be None with crf"):
        crf_task[0].compile(keras.optimizers.Adam(), class_weights={"a": 2.0})
