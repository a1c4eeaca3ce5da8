"""Google's pretraining files are written and read as TensorFlow does, and damage is reported by file and record."""

import keras
import numpy as np
import pytest
from helpers.small_corpus import small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.pretraining.tf_example import decode_example, encode_example
from keras_bert_rebuild.data.pretraining.tfrecord import (
    masked_crc32c,
    pretraining_batch,
    read_pretraining_records,
    read_records,
    write_pretraining_records,
    write_records,
)


@pytest.fixture(scope="module")
def batch():
    return pretraining_batches(small_corpus(), 8, 24, 4).batch(0, 0)


def assert_same(a, b):
    for x, y in zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_the_checksum_is_that_of_the_format():
    # An empty record as TensorFlow writes it: a length of zero and two checksums.
    assert masked_crc32c(bytes(8)).to_bytes(4, "little").hex() == "29039807"
    assert masked_crc32c(b"").to_bytes(4, "little").hex() == "d8ea82a2"


@given(st.lists(st.binary(max_size=300), max_size=5), st.sampled_from(["a.tfrecord", "a.tfrecord.gz"]))
def test_records_are_read_as_they_were_written(tmp_path_factory, records, name):
    path = tmp_path_factory.mktemp("records") / name
    write_records(path, records)
    assert list(read_records(path)) == records


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.one_of(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9).map(lambda values: np.array(values, "int64")),
            st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9).map(lambda values: np.array(values, "float32")),
        ),
        max_size=4,
    )
)
def test_examples_are_read_as_they_were_written(features):
    got = decode_example(encode_example(features))
    assert got.keys() == features.keys()
    for name, values in features.items():
        assert got[name].dtype == values.dtype
        np.testing.assert_array_equal(got[name], values)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_an_example_are_a_value_error_or_lack_our_features(data):
    try:
        features = decode_example(data)
    except ValueError:
        return
    assert "input_ids" not in features


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x05",
        b"\x0a\x02\x08\x05",
        b"\x0a\x04\x0a\x02\x08\x05",
        b"\x0a\x04\x0a\x02\x10\x05",
        b"\x0a\x06\x0a\x04\x12\x02\x08\x05",
        b"\x0a\x08\x0a\x06\x12\x04\x0a\x02\x08\x05",
        b"\x0a\x08\x0a\x06\x12\x04\x12\x02\x08\x05",
    ],
    ids=["features", "feature", "name", "value", "list", "bytes", "float"],
)
def test_a_number_instead_of_bytes_is_an_error(data):
    with pytest.raises(ValueError, match=r"must have bytes in field [12]; got the integer 5"):
        decode_example(data)


def test_a_list_that_is_not_packed_is_read():
    # Feature of int64_list { value: 5 value: 300 }, one field per number.
    numbers = b"\x08\x05\x08\xac\x02"
    feature = b"\x1a" + bytes([len(numbers)]) + numbers
    entry = b"\x0a\x01a\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert decode_example(b"\x0a" + bytes([len(features)]) + features)["a"].tolist() == [5, 300]


@pytest.mark.parametrize("name", ["p.tfrecord", "p.tfrecord.gz"])
def test_a_batch_comes_back(batch, tmp_path, name):
    path = tmp_path / name
    write_pretraining_records(path, [batch], max_predictions=6)
    examples = list(read_pretraining_records(path))
    assert len(examples) == 8
    assert {key: len(values) for key, values in examples[0].items()} == {
        "input_ids": 24,
        "input_mask": 24,
        "segment_ids": 24,
        "masked_lm_positions": 6,
        "masked_lm_ids": 6,
        "masked_lm_weights": 6,
        "next_sentence_labels": 1,
    }
    assert_same(pretraining_batch(examples), batch)
    assert_same(pretraining_batch(examples, next_sentence=False), (batch[0], batch[1][0]))
    assert all((example["input_mask"] == (labels[:, 0] != 0)).all() for example, labels in zip(examples, batch[1][0], strict=True))


def test_a_batch_of_single_segments_comes_back(tmp_path):
    single = pretraining_batches(small_corpus(), 8, 24, 4, next_sentence=None).batch(0, 0)
    write_pretraining_records(tmp_path / "p", [single], max_predictions=4)
    assert_same(pretraining_batch(list(read_pretraining_records(tmp_path / "p")), next_sentence=False), single)


def test_the_same_batch_gives_the_same_file(batch, tmp_path):
    for name in ("a.gz", "b.gz"):
        write_pretraining_records(tmp_path / name, [batch], 4)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_too_many_predictions_are_an_error_and_leave_no_file_that_looks_whole(batch, tmp_path):
    with pytest.raises(ValueError, match="at most 1 predictions; got"):
        write_pretraining_records(tmp_path / "p", [batch], max_predictions=1)
    assert not (tmp_path / "p").exists()


def test_damage_is_reported_by_file_and_record(batch, tmp_path):
    path = tmp_path / "p.tfrecord"
    write_pretraining_records(path, [batch], 4)
    whole = path.read_bytes()
    size = 16 + int.from_bytes(whole[:8], "little")
    for place, match in (
        (size + 2, "that of the length of record 1 does not match"),
        (size + 40, "that of the bytes of record 1 does not match"),
        (2 * size - 1, "record 1"),
    ):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=match) as error:
            list(read_pretraining_records(path))
        assert str(path) in str(error.value)
    for end in (size + 3, size + 30, 2 * size - 2):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"p\.tfrecord must have complete records; it ends within record 1"):
            list(read_pretraining_records(path))


def test_a_record_of_absurd_length_is_an_error(tmp_path):
    length = (1 << 63).to_bytes(8, "little")
    (tmp_path / "p").write_bytes(length + masked_crc32c(length).to_bytes(4, "little"))
    with pytest.raises(ValueError, match=r"p must have records of at most 67,108,864 bytes; record 0 claims 9,223,372,"):
        list(read_records(tmp_path / "p"))


def test_damaged_compression_is_an_error(batch, tmp_path):
    path = tmp_path / "p.gz"
    write_pretraining_records(path, [batch], 4)
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], b"no gzip at all", whole[:30] + b"\xff\xff\xff\xff" + whole[34:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"p\.gz must"):
            list(read_pretraining_records(path))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"input_mask": None}, "record 0 lacks the integers input_mask"),
        ({"segment_ids": np.zeros(3, int)}, "segment_ids of record 0 must have 24 values; got 3"),
        ({"next_sentence_labels": np.zeros(2, int)}, "next_sentence_labels of record 0 must have 1 values; got 2"),
        ({"masked_lm_positions": np.zeros(4, "float32")}, "masked_lm_positions of record 0 must be integers; got floats"),
        ({"masked_lm_positions": np.full(4, 24)}, "positions of record 0 must be in 0 to 23; got 24 to 24"),
    ],
)
def test_other_records_are_an_error(batch, tmp_path, change, match):
    write_pretraining_records(tmp_path / "p", [batch], 4)
    example = {**next(read_pretraining_records(tmp_path / "p")), **change}
    write_records(tmp_path / "q", [encode_example({name: values for name, values in example.items() if values is not None})])
    with pytest.raises(ValueError, match=match):
        list(read_pretraining_records(tmp_path / "q"))
    write_records(tmp_path / "q", [b"\xff\xff"])
    with pytest.raises(ValueError, match=r"q must have examples; in record 0, a tf\.train\.Example must have integers"):
        list(read_pretraining_records(tmp_path / "q"))


@pytest.mark.tensorflow
@pytest.mark.parametrize(("name", "compression"), [("p.tfrecord", ""), ("p.tfrecord.gz", "GZIP")])
def test_tensorflow_reads_what_we_write_and_we_read_what_it_writes(batch, tmp_path, name, compression):
    import tensorflow as tf

    write_pretraining_records(tmp_path / name, [batch], 4)
    ours = list(read_pretraining_records(tmp_path / name))
    theirs = list(tf.data.TFRecordDataset(str(tmp_path / name), compression).as_numpy_iterator())
    assert len(theirs) == 8
    for record, features in zip(theirs, ours, strict=True):
        parsed = tf.train.Example.FromString(record).features.feature
        assert parsed.keys() == features.keys()
        for key, values in features.items():
            feature = parsed[key]
            assert list((feature.float_list if values.dtype.kind == "f" else feature.int64_list).value) == values.tolist()
    with tf.io.TFRecordWriter(str(tmp_path / f"theirs-{name}"), compression) as writer:
        for record in theirs:
            writer.write(tf.train.Example.FromString(record).SerializeToString())
    for a, b in zip(read_pretraining_records(tmp_path / f"theirs-{name}"), ours, strict=True):
        assert_same(a, b)


@pytest.mark.tensorflow
def test_lists_of_bytes_and_negative_numbers_are_tensorflows():
    import tensorflow as tf

    example = tf.train.Example()
    example.features.feature["text"].bytes_list.value.extend([b"a", b"", b"bc"])
    example.features.feature["ids"].int64_list.value.extend([-1, 2**40])
    example.features.feature["none"].int64_list.value.extend([])
    got = decode_example(example.SerializeToString())
    assert got["text"] == [b"a", b"", b"bc"]
    assert got["ids"].tolist() == [-1, 2**40]
    assert got["none"].tolist() == []
