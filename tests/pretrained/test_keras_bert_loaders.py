"""keras_bert's loaders, on a checkpoint that the test writes; and its vectors."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.reference import encode, logits, softmax

import keras_bert_rebuild as kb
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert_rebuild.families import bert

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "all", "work", "and", "no", "play", "makes", "jack", "a", "dull", "boy"]
CONFIG = {
    "vocab_size": 15,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "type_vocab_size": 2,
}
ROWS = bert.GOOGLE.rows(3, ("pooler", "mlm", "nsp"))


@pytest.fixture(scope="module")
def weights():
    """Weights by our paths."""
    rng = np.random.default_rng(5)
    model = kb.get_model(15, 20, 20, 8, 3, 2, 16)
    return {v.path: rng.normal(0, 0.3, v.shape).astype("float32") for v in model.weights}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, weights):
    folder = tmp_path_factory.mktemp("checkpoint")
    arrays = {name: weights[path].T if layout == "transposed" else weights[path] for path, name, layout, *_ in ROWS}
    arrays["bert/pooler/dense/kernel/adam_m"] = np.zeros(3, "float32")
    write_tensorflow_checkpoint(folder / "bert_model.ckpt", arrays.items())
    (folder / "bert_config.json").write_text(json.dumps(CONFIG))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def load(folder, **kwargs):
    return kb.load_trained_model_from_checkpoint(folder / "bert_config.json", folder / "bert_model.ckpt", **kwargs)


IDS = np.array([[2, 5, 6, 4, 8, 9, 3] + [0] * 13, [2, 14, 3, 11, 3] + [0] * 15])
SEGMENTS = np.array([[0] * 20, [0, 0, 0, 1, 1] + [0] * 15])


def test_a_whole_model_is_loaded(folder, weights):
    model = load(folder, training=True)
    mlm, nsp = model.predict((IDS, SEGMENTS, IDS * 0), verbose=0)
    w = {path: value.astype("float64") for path, value in weights.items()}
    expected_mlm, expected_nsp = logits(w, IDS, SEGMENTS, 2, 3)
    np.testing.assert_allclose(mlm[IDS != 0], softmax(expected_mlm)[IDS != 0], atol=1e-5)
    np.testing.assert_allclose(nsp, softmax(expected_nsp), atol=1e-5)


@pytest.mark.parametrize(("chosen", "blocks"), [(1, [2]), (2, [1, 2]), ([0, -1], [2, 0]), ([1], [1])])
def test_features_of_chosen_blocks_are_loaded(folder, weights, chosen, blocks):
    got = load(folder, output_layer_num=chosen).predict((IDS, SEGMENTS), verbose=0)
    outputs = encode({path: value.astype("float64") for path, value in weights.items()}, IDS, SEGMENTS, 2, 3)
    np.testing.assert_allclose(got[IDS != 0], np.concatenate([outputs[b] for b in blocks], -1)[IDS != 0], atol=1e-5)


@pytest.mark.parametrize("seq_len", [8, None])
def test_lengths_may_be_shorter_or_dynamic(folder, seq_len):
    full = load(folder).predict((IDS, SEGMENTS), verbose=0)
    model = load(folder, seq_len=seq_len)
    assert model.outputs[0].shape[1] == seq_len
    np.testing.assert_allclose(model.predict((IDS[:, :8], SEGMENTS[:, :8]), verbose=0)[:, :5], full[:, :5], atol=1e-5)


def test_the_config_is_returned_with_the_length(folder):
    model, config = kb.build_model_from_config(folder / "bert_config.json", seq_len=8)
    assert config["max_position_embeddings"] == 8
    assert model.get_layer("Embedding-Dropout").rate == 0.1
    assert kb.build_model_from_config(folder / "bert_config.json", dropout_rate=0.0)[0].count_params() == model.count_params() + 96


def test_task_embeddings_are_not_changed(folder):
    model = load(folder, use_task_embed=True, task_num=3, training=True)
    assert model.get_layer("Embedding-Task").get_weights()[0].shape == (3, 8)


def test_a_checkpoint_that_does_not_fit_lists_everything_and_changes_nothing(folder, tmp_path):
    other = {**CONFIG, "num_hidden_layers": 4, "intermediate_size": 18}
    (tmp_path / "config.json").write_text(json.dumps(other))
    model, config = kb.build_model_from_config(tmp_path / "config.json", training=True)
    before = model.get_weights()
    with pytest.raises(ValueError, match="does not fit") as error:
        kb.load_model_weights_from_checkpoint(model, config, folder / "bert_model.ckpt", training=True)
    text = str(error.value)
    assert text.count("is missing") == 16
    assert text.count("expected shape") == 9
    assert "there is bert/encoder/layer_" in text
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "bert_config.json; it does not exist"), ("{", "must be JSON"), ('{"vocab_size": 3}', "hidden_size.* is missing")],
)
def test_a_config_that_cannot_be_used_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "bert_config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        kb.build_model_from_config(path)


def test_checkpoint_paths_are_joined():
    paths = kb.get_checkpoint_paths("folder")
    assert [Path(p).name for p in paths] == ["bert_config.json", "bert_model.ckpt", "vocab.txt"]


TEXTS = ["all work and no play", "makes jack a dull boy~"]


def test_vectors_of_tokens_are_cut_to_the_text(folder):
    got = kb.extract_embeddings(str(folder), TEXTS)
    assert [vector.shape for vector in got] == [(7, 8), (8, 8)]
    whole = kb.extract_embeddings(str(folder), TEXTS, cut_embed=False)
    assert [vector.shape for vector in whole] == [(20, 8), (20, 8)]
    # Computed at two lengths, whose products round differently.
    np.testing.assert_allclose(whole[0][:7], got[0], atol=1e-6)
    for a, b in zip(got, kb.extract_embeddings(str(folder), TEXTS, batch_size=1), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_pairs_and_poolings(folder):
    pairs = [("all work", "no play"), ("jack", "a dull boy")]
    assert kb.extract_embeddings(str(folder), pairs)[0].shape == (7, 8)
    tokens = kb.extract_embeddings(str(folder), pairs, output_layer_num=2)
    pooled = kb.extract_embeddings(str(folder), pairs, [kb.POOL_NSP, kb.POOL_MAX, kb.POOL_AVE], output_layer_num=2)
    for vectors, vector in zip(tokens, pooled, strict=True):
        np.testing.assert_allclose(vector, np.concatenate([vectors[0], vectors.max(0), vectors.mean(0)]), atol=1e-5)


def test_a_model_of_any_length_and_an_endless_iterator(folder):
    model = load(folder, seq_len=None)
    vocabulary = kb.load_vocabulary(folder / "vocab.txt")

    def endless():
        while True:
            yield from TEXTS

    stream = kb.extract_embeddings_generator(model, endless(), vocabs=vocabulary)
    fixed = kb.extract_embeddings(str(folder), TEXTS)
    for _ in range(3):
        for expected in fixed:
            np.testing.assert_allclose(next(stream), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": "all work"}, "got the string 'all work'"),
        ({"poolings": "POOL_MEAN"}, "Unknown pooling method"),
        ({"poolings": []}, "one or more of"),
        ({"poolings": ["POOL_MAX", "POOL_MAX"]}, "each once"),
    ],
)
def test_invalid_arguments_are_one_sentence(folder, arguments, message):
    with pytest.raises(ValueError, match=message):
        kb.extract_embeddings(str(folder), **{"texts": TEXTS, **arguments})


def test_nothing_happens_before_the_first_vector_is_requested():
    kb.extract_embeddings_generator("no such folder", TEXTS)
    with pytest.raises(ValueError, match=r"no such folder/bert_config\.json; it does not exist"):
        next(kb.extract_embeddings_generator("no such folder", TEXTS))


def test_masks_are_filled_in_the_order_of_the_text(folder):
    model, vocabulary = load(folder, training=True), kb.load_vocabulary(folder / "vocab.txt")
    answers = kb.fill_mask(model, vocabulary, "all [MASK] and no [MASK]", top_k=3)
    assert [len(answer) for answer in answers] == [3, 3]
    ids = np.array([[2, 5, 4, 7, 8, 4, 3] + [0] * 13])
    chosen = (ids == 4).astype(int)
    mlm = model.predict((ids, ids * 0, chosen), verbose=0)[0][0]
    for place, answer in zip((2, 5), answers, strict=True):
        assert answer[0][0] == WORDS[mlm[place].argmax()]
        assert answer[0][1] == pytest.approx(mlm[place].max())
        assert answer[0][1] >= answer[1][1] >= answer[2][1]
    for text, message in (
        ("all work", r"at least one \[MASK\]"),
        ([3], "must be a string"),
    ):
        with pytest.raises(ValueError, match=message):
            kb.fill_mask(model, vocabulary, text)


@pytest.mark.parametrize("nested", [False, True])
def test_a_model_with_layers_of_the_user_is_loaded_by_name(folder, weights, nested):
    bert, config = kb.build_model_from_config(folder / "bert_config.json", seq_len=8)
    pooled = keras.layers.GlobalMaxPooling1D()(bert(bert.inputs) if nested else bert.output)
    model = keras.Model(bert.inputs, keras.layers.Dense(3, name="my_output")(pooled))
    before = {v.path: keras.ops.convert_to_numpy(v) for v in model.weights if v.path.startswith("my_output")}
    kb.load_model_weights_from_checkpoint(model, config, folder / "bert_model.ckpt")
    for variable in model.weights:
        value = keras.ops.convert_to_numpy(variable)
        expected = before.get(variable.path, weights.get(variable.path))
        np.testing.assert_array_equal(value, expected[: len(value)])
    assert len(before) == 2


def test_a_model_without_the_layers_of_bert_is_refused(folder):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="my_output")])
    with pytest.raises(ValueError, match="must have layers of get_model, such as Embedding-Token; it has my_output"):
        kb.load_model_weights_from_checkpoint(model, CONFIG, folder / "bert_model.ckpt")
