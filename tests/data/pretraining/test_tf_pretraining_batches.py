"""Files of Google's pretraining examples become the batches that they were written from."""

import keras
import numpy as np
import pytest
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import read_pretraining_records

pytestmark = pytest.mark.backend("tensorflow")

ROOM = 6  # for predictions, of which an example has at most 4


@pytest.fixture(scope="module")
def batches():
    made = pretraining_batches(small_corpus(), 8, 24, 4)
    return [made.batch(0, 0), made.batch(0, 1)]


def examples_of(batch):
    """The features that `create_pretraining_data.py` writes for the examples of a batch."""
    (tokens, segments, chosen), (labels, is_random) = batch
    for row in range(len(tokens)):
        positions = np.flatnonzero(chosen[row])
        room = (0, ROOM - len(positions))
        yield {
            "input_ids": tokens[row],
            "input_mask": (labels[row, :, 0] != 0).astype("int32"),
            "segment_ids": segments[row],
            "masked_lm_positions": np.pad(positions, room),
            "masked_lm_ids": np.pad(labels[row, positions, 0], room),
            "masked_lm_weights": np.pad(np.ones(len(positions), "float32"), room),
            "next_sentence_labels": is_random[row],
        }


def write(path, batches):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for features in (features for batch in batches for features in examples_of(batch)):
            example = tf.train.Example()
            for name, values in features.items():
                feature = example.features.feature[name]
                (feature.float_list if values.dtype.kind == "f" else feature.int64_list).value.extend(values.tolist())
            writer.write(example.SerializeToString())
    return path


def assert_same(got, expected):
    keras.tree.assert_same_structure(got, expected)
    for ours, theirs in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["p.tfrecord", "p.tfrecord.gz"])
def test_a_file_gives_the_batches_that_it_was_written_from(batches, tmp_path, name):
    found = list(read_pretraining_records(write(tmp_path / name, batches), 8, 24, ROOM).as_numpy_iterator())
    for ours, theirs in zip(found, batches, strict=True):
        assert_same(ours, theirs)


def test_several_files_follow_each_other_and_the_head_of_pairs_may_be_left_out(batches, tmp_path):
    files = [write(tmp_path / f"{number}.tfrecord", [batch]) for number, batch in enumerate(batches)]
    found = list(read_pretraining_records(files, 16, 24, ROOM, next_sentence=False).as_numpy_iterator())
    ((x, y),) = found
    assert_same(x, tuple(np.concatenate(parts) for parts in zip(*(inputs for inputs, _ in batches), strict=True)))
    np.testing.assert_array_equal(y, np.concatenate([labels for _, (labels, _) in batches]))


def test_a_damaged_file_and_examples_of_another_length_are_errors_of_tensorflow(batches, tmp_path):
    import tensorflow as tf

    path = write(tmp_path / "p.tfrecord", batches[:1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"output shape: \[32\]"):
        list(read_pretraining_records(path, 8, 32, ROOM))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(tf.errors.DataLossError, match="truncated record"):
        list(read_pretraining_records(path, 8, 24, ROOM))
