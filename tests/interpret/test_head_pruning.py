"""Pruned heads are heads switched off, in a smaller model that is saved, loaded, counted and explained as any other."""

import json

import keras
import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import CONFIG, PETS, TOKENIZER, small_encoder, small_task
from helpers.tiny_families import tiny_config

from keras_bert_rebuild import TextClassifier, attention_maps, build_model, from_pretrained, load_task, save_pretrained
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.families.modernbert import ModernBertConfig
from keras_bert_rebuild.interpret import Head, intervene, prune_heads, prune_task, record
from keras_bert_rebuild.pretrained.vocabulary_surgery import resize_vocabulary

INPUTS = [np.array([[2, 5, 6, 8, 9, 3, 0], [2, 9, 7, 6, 5, 8, 3]]), np.zeros((2, 7), int)]
SIZES = {"hidden_size": 24, "num_attention_heads": 4}
PRUNED = {0: [1], 1: [0, 3]}
OFF = [Head(0, 1), Head(1, 0), Head(1, 3)]


def asked(model, inputs=INPUTS):
    outputs = model(bare_if_one(inputs[: len(model.inputs)]), training=False)
    return keras.ops.convert_to_numpy(outputs[0] if isinstance(outputs, list) else outputs)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "distilbert", "albert"])
def test_a_pruned_model_answers_as_with_its_heads_switched_off(family, tmp_path):
    config = tiny_config(FAMILIES[family], **SIZES, **({"num_hidden_groups": 2} if family == "albert" else {}))
    model = spread(build_model(config), np.random.default_rng(4))
    pruned = prune_heads(model, PRUNED)
    with intervene(model, OFF):
        off = asked(model)
    # Products of other sizes round differently: outputs of about 1, in float32.
    np.testing.assert_allclose(asked(pruned), off, rtol=1e-5, atol=1e-5)
    assert np.abs(asked(model) - off).max() > 1e-3
    assert pruned.count_params() == pruned.config.num_params([]) == model.count_params() - 3 * (4 * 24 * 6 + 3 * 6)
    assert [layer.name for layer in pruned.layers] == [layer.name for layer in model.layers]
    for format in ("huggingface", "keras"):
        save_pretrained(pruned, tmp_path / format, format, vocabulary=TOKENIZER)
        loaded = from_pretrained(tmp_path / format, heads=None if format == "keras" else [])
        np.testing.assert_array_equal(asked(loaded), asked(pruned))
        assert loaded.config.pruned_heads == ((0, (1,)), (1, (0, 3)))
    assert json.loads((tmp_path / "huggingface" / "config.json").read_text())["pruned_heads"] == {"0": [1], "1": [0, 3]}


def test_a_shared_block_is_pruned_once():
    model = spread(
        build_model(CONFIG.replace(family="albert", num_hidden_layers=3, num_hidden_groups=1, **SIZES)), np.random.default_rng(4)
    )
    with intervene(model, [Head(run, 2) for run in range(3)]):
        off = asked(model)
    np.testing.assert_allclose(asked(prune_heads(model, {0: [2]})), off, rtol=1e-5, atol=1e-5)


def test_pruned_twice_is_pruned_at_once_and_heads_keep_their_numbers():
    model = small_encoder((), **SIZES)
    once = prune_heads(model, PRUNED)
    twice = prune_heads(prune_heads(model, {1: [3]}), {0: [1], 1: [0, 3]})
    np.testing.assert_array_equal(asked(twice), asked(once))
    assert twice.config == once.config
    site = Head(1, 2)
    with intervene(model, OFF):
        expected = record(model, INPUTS, [site]).of(site)
    np.testing.assert_allclose(record(once, INPUTS, [site]).of(site), expected, atol=1e-6)
    with pytest.raises(ValueError, match="head must be one of 1, 2, the heads of block 1; got 0"), intervene(once, [Head(1, 0)]):
        pass


def test_maps_and_names_count_heads_as_before_they_were_pruned():
    model = small_encoder((), **SIZES)
    pruned = prune_heads(model, PRUNED)
    maps = attention_maps(pruned, INPUTS, vectors=True)
    with intervene(model, OFF):
        whole = attention_maps(model, INPUTS, vectors=True)
    there = np.array([[True, False, True, True], [False, True, True, False]])
    for name in ("probabilities", "queries", "values"):
        here, expected = (np.moveaxis(getattr(of, name), 2, 1) for of in (maps, whole))
        np.testing.assert_allclose(here[there], expected[there], atol=1e-6)
        assert not here[~there].any()
    names = {row.path: row for row in weight_names(pruned.config, [])}
    query = names["Encoder-2-MultiHeadSelfAttention/query/kernel"]
    assert query.their_shape == (12, 24)
    assert query.heads == "rows 0–5 head 1, … 6–11 head 2"
    assert query.of_head(2)[0] == slice(6, 12)
    with pytest.raises(ValueError, match="must not be pruned; 3 of"):
        query.of_head(3)


def test_what_is_not_of_the_heads_stays_and_vocabularies_can_still_be_changed():
    model = small_encoder(("mlm",), **SIZES)
    model.get_layer("Encoder-1-FeedForward").trainable = False
    pruned = prune_heads(model, PRUNED)
    assert not pruned.get_layer("Encoder-1-FeedForward").trainable
    smaller, _ = resize_vocabulary(pruned, {token: i for i, token in enumerate(TOKENIZER.vocabulary)}, 20)
    assert smaller.config.pruned_heads == pruned.config.pruned_heads
    with pytest.raises(ValueError, match=r"Google's bert_config\.json cannot represent pruned_heads"):
        save_pretrained(pruned, "unwritten", "google")


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ({2: [0]}, "must have blocks from 0 to 1; got 2"),
        ({0: [4]}, r"must have heads from 0 to 3; got \[4\]"),
        ({0: [0, 1, 2, 3]}, "must leave every block at least one head; got all heads of block 0"),
        ({0: [1.5]}, "must map block numbers to lists of heads"),
    ],
)
def test_heads_that_are_not_there_are_refused(heads, words):
    with pytest.raises(ValueError, match=words):
        prune_heads(small_encoder((), **SIZES), heads)


def test_families_of_other_attention_are_refused():
    config = ModernBertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, pad_token_id=0
    )
    with pytest.raises(ValueError, match="must be empty except for families with BERT's attention; the family is modernbert"):
        prune_heads(build_model(config), {0: [1]})


def test_a_task_loses_its_least_important_heads_and_says_what_that_costs(tmp_path):
    task = small_task(TextClassifier, labels=["cat", "dog"])
    done = prune_task(task, PETS, 0.5, batch_size=4)
    assert done.heads == done.importance.least(0.5)
    assert sum(map(len, done.heads.values())) == 2
    texts = [pet.text for pet in PETS]
    with intervene(task, [Head(block, head) for block, heads in done.heads.items() for head in heads]):
        expected = task(texts)
    np.testing.assert_allclose([a.probability for a in done.task(texts)], [a.probability for a in expected], atol=1e-6)
    assert done.before == task.scores(PETS, task(texts))
    assert done.after == task.scores(PETS, expected)
    done.task.save(tmp_path / "pruned")
    assert load_task(tmp_path / "pruned")(texts) == done.task(texts)
