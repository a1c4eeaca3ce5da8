"""Invalid ids are refused on the host in every way of passing them."""

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, compiled, small_batch, small_model
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import BertModel
from keras_bert_rebuild.models.batch_check import IdRule, check_ids
from keras_bert_rebuild.models.checked_data import checked_data

WAYS = ("fit", "evaluate", "predict", "call", "train_on_batch", "test_on_batch", "predict_on_batch", "generator", "dataset")

BAD_TOKENS = {
    "an id behind the vocabulary": (
        lambda ids: put(ids, VOCAB),
        rf"Input-Token: expected ids from 0 to {VOCAB - 1} .*got {VOCAB} at \[2, 3\]",
    ),
    "a negative id": (lambda ids: put(ids, -1), r"Input-Token: expected ids from 0 .*got -1 at \[2, 3\]"),
    "a float that is not whole": (
        lambda ids: put(ids.astype("float32"), 1.5),
        r"Input-Token: expected whole numbers; got 1.5 at \[2, 3\]",
    ),
    "not a number": (lambda ids: put(ids.astype("float32"), np.nan), "Input-Token: expected whole numbers; got nan"),
    "ragged rows": (
        lambda ids: [list(row[: 3 + i % 2]) for i, row in enumerate(ids)],
        "Input-Token: .*ragged array with rows of 3, 4",
    ),
    "strings": (lambda ids: [["a"] * LENGTH] * len(ids), "Input-Token: expected whole numbers; got an array of <U1"),
    "texts": (lambda ids: ["a text", "another text"], "Input-Token: expected whole numbers; got an array of <U12"),
    "a string": (lambda ids: "hello", "Input-Token: expected an array of ids; got the string 'hello'"),
    "a sequence beyond the positions": (
        lambda ids: np.pad(ids, ((0, 0), (0, 1))),
        rf"Input-Token: expected at most {LENGTH} positions, .*got shape \(8, {LENGTH + 1}\)",
    ),
}


class OneBatch(keras.utils.PyDataset):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def put(ids, value):
    ids = ids.copy()
    ids[2, 3] = value
    return ids


@pytest.fixture(scope="module")
def compiled_model():
    """A model of any length, shared by all cases: a refused batch does not change it."""
    return compiled(small_model(seq_len=None))


def model_for(way, shared):
    """The shared model, or a new one where batches are refused during training: on JAX its variables are then empty."""
    return compiled(small_model(seq_len=None)) if way in ("generator", "dataset") else shared


def feed(model, way, x, y):
    """Pass a batch to the model in one of the ways."""
    if way == "generator":
        return model.fit((batch for batch in [(x, y)]), steps_per_epoch=1, verbose=0)
    if way == "dataset":
        return model.fit(OneBatch((x, y)), verbose=0)
    if way in ("predict", "predict_on_batch"):
        return getattr(model, way)(x)
    if way == "call":
        return model(x)
    return getattr(model, way)(x, y, **({"verbose": 0} if way in ("fit", "evaluate") else {}))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", BAD_TOKENS)
def test_bad_tokens_are_one_clear_sentence(rng, compiled_model, way, bad):
    (ids, segments, chosen), y = small_batch(rng)
    change, message = BAD_TOKENS[bad]
    with pytest.raises(ValueError, match=message):
        feed(model_for(way, compiled_model), way, (change(ids), segments, chosen), y)


@pytest.mark.parametrize("way", WAYS)
def test_segments_outside_their_table_are_refused(rng, compiled_model, way):
    (ids, segments, chosen), y = small_batch(rng)
    with pytest.raises(ValueError, match=r"Input-Segment: expected ids from 0 to 1 .*got 2 at \[2, 3\]"):
        feed(model_for(way, compiled_model), way, (ids, put(segments, 2), chosen), y)


def test_tasks_outside_their_table_are_refused(rng):
    (ids, segments, chosen), _ = small_batch(rng)
    with pytest.raises(ValueError, match=r"Input-Task: expected ids from 0 to 2 .*got 3 at \[0, 0\]"):
        small_model(use_task_embed=True, task_num=3).predict((ids, segments, np.full((8, 1), 3), chosen))


def test_a_missing_input_is_named(rng):
    (ids, segments, _), _ = small_batch(rng)
    with pytest.raises(ValueError, match="expected 3 inputs, Input-Token, Input-Segment, Input-Masked; got 2"):
        small_model().predict((ids, segments))


def test_a_missing_input_of_a_dictionary_is_named(rng):
    (ids, segments, _), y = small_batch(rng)
    given = {"Input-Token": ids, "Input-Segment": segments}
    message = "expected the inputs Input-Token, Input-Segment, Input-Masked; got Input-Token, Input-Segment"
    with pytest.raises(ValueError, match=message):
        compiled(small_model()).evaluate(given, y, verbose=0)


def test_labels_for_some_of_the_outputs_are_refused(rng):
    x, (labels, _) = small_batch(rng)
    with pytest.raises(ValueError, match="expected one value for each of the outputs MLM, NSP; got 1"):
        compiled(small_model()).evaluate(x, [labels], verbose=0)


def test_a_single_example_without_a_batch_axis_is_refused_by_its_shape():
    model = BertModel(*small_model(training=False))
    with pytest.raises(ValueError, match="shape"):
        model.predict((np.ones(LENGTH, int), np.zeros(LENGTH, int)), verbose=0)


@pytest.mark.parametrize("way", ["fit", "evaluate", "generator", "dataset"])
def test_labels_outside_the_vocabulary_are_refused_where_they_count(rng, way):
    x, (labels, nsp) = small_batch(rng)
    row, column = np.argwhere(x[2])[0]
    labels[row, column] = VOCAB
    with pytest.raises(ValueError, match=f"labels of MLM: .*got {VOCAB} at"):
        feed(compiled(small_model()), way, x, (labels, nsp))
    with pytest.raises(ValueError, match="labels of NSP: expected ids from 0 to 1"):
        feed(compiled(small_model()), way, x, (labels * 0, nsp + 1))


def test_bad_validation_data_is_refused(rng):
    x, y = small_batch(rng)
    (ids, segments, chosen), _ = small_batch(rng)
    with pytest.raises(ValueError, match="Input-Token"):
        compiled(small_model()).fit(x, y, validation_data=((put(ids, -1), segments, chosen), y), verbose=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_whole_numbers_of_any_type_are_accepted(rng, dtype):
    (ids, segments, chosen), _ = small_batch(rng)
    if dtype == "bool":
        ids = (ids > 30).astype(int)
    model = small_model()
    expected = model.predict((ids, segments, chosen), verbose=0)
    got = model.predict(tuple(a.astype(dtype) for a in (ids, segments, chosen)), verbose=0)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_float_ids_survive_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = BertModel(*small_model(token_num=40000, training=False))
    ids = np.full((1, LENGTH), 30521)
    expected = model.predict((ids, ids * 0), verbose=0)
    np.testing.assert_array_equal(model.predict((ids.astype("float32"), ids * 0.0), verbose=0), expected)


def test_batches_of_lists_train_from_a_generator(rng):
    x, y = small_batch(rng)
    history = compiled(small_model()).fit(([list(x), list(y)] for _ in range(2)), steps_per_epoch=2, verbose=0).history
    assert np.isfinite(history["loss"][0])


def test_nested_lists_are_accepted(rng):
    x, _ = small_batch(rng)
    model = small_model()
    expected = model.predict(x, verbose=0)[1]
    np.testing.assert_array_equal(model.predict([a.tolist() for a in x], verbose=0)[1], expected)


def test_a_prediction_that_would_fill_the_memory_says_so_before_it_starts(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.models.memory.available_bytes", lambda: 20e9)
    model = small_model(token_num=30000, seq_len=512, pos_num=512)
    ids = np.ones((1000, 512), int)
    with pytest.raises(MemoryError, match=r"\(1000, 512, 30000\) and \(1000, 2\), 61.4 GB, but only 20.0 GB of memory are free"):
        model.predict((ids, ids * 0, ids * 0))


@pytest.mark.backend("tensorflow")
def test_a_tf_dataset_is_checked_batch_by_batch(rng):
    import tensorflow as tf

    (ids, segments, chosen), y = small_batch(rng)
    model = compiled(small_model())
    good = tf.data.Dataset.from_tensor_slices(((ids, segments, chosen), y)).batch(4)
    assert np.isfinite(model.fit(good, verbose=0).history["loss"][0])
    bad = tf.data.Dataset.from_tensor_slices(((put(ids, VOCAB), segments, chosen), y)).batch(4)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"Input-Token: expected ids from 0 to {VOCAB - 1}.*got {VOCAB} at \[2, 3\]"
    ):
        model.fit(bad, verbose=0)


@pytest.mark.backend("tensorflow")
def test_a_dataset_that_a_strategy_has_distributed_is_left_alone():
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(np.ones((4, LENGTH), int)).batch(2)
    distributed = tf.distribute.MirroredStrategy(["CPU:0"]).experimental_distribute_dataset(dataset)
    assert isinstance(distributed, tf.distribute.DistributedDataset)
    assert checked_data(distributed, check=None) is distributed


def test_a_torch_data_loader_is_checked_batch_by_batch(rng):
    torch = pytest.importorskip("torch", reason="a DataLoader is torch's")
    (ids, segments, chosen), (labels, nsp) = small_batch(rng)

    def loader(ids):
        examples = [((a, b, c), (d, e)) for a, b, c, d, e in zip(ids, segments, chosen, labels, nsp, strict=True)]
        return torch.utils.data.DataLoader(examples, batch_size=4)

    model = compiled(small_model())
    assert np.isfinite(model.fit(loader(ids), epochs=2, verbose=0).history["loss"]).all()
    with pytest.raises(ValueError, match="Input-Token"):
        model.fit(loader(put(ids, -1)), verbose=0)


def test_a_torch_data_loader_without_a_length_is_trained_on(rng):
    torch = pytest.importorskip("torch", reason="a DataLoader is torch's")
    x, y = small_batch(rng)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([(tuple(column[i] for column in x), tuple(column[i] for column in y)) for i in range(8)])

    with pytest.warns(UserWarning, match="ran out of data"):  # Keras says so at the end of data without a length
        history = compiled(small_model()).fit(torch.utils.data.DataLoader(Stream(), batch_size=4), epochs=2, verbose=0).history
    assert len(history["loss"]) == 2
    assert np.isfinite(history["loss"]).all()


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=6))
def test_ids_pass_exactly_if_they_are_in_the_table(values):
    rule = IdRule("ids", limit=6, table="rows")
    if all(0 <= value < 6 for value in values):
        assert check_ids(rule, [values]).tolist() == [values]
    else:
        with pytest.raises(ValueError, match="ids: expected ids from 0 to 5"):
            check_ids(rule, [values])


@given(st.floats(width=32))
def test_floats_pass_exactly_if_they_are_whole(value):
    rule = IdRule("ids")
    if np.isfinite(value) and float(value).is_integer() and abs(value) < 2**62:
        assert check_ids(rule, np.array([value], "float32")).tolist() == [int(value)]
    elif not np.isfinite(value) or abs(value) < 2**62:
        with pytest.raises(ValueError, match="whole numbers"):
            check_ids(rule, np.array([value], "float32"))
