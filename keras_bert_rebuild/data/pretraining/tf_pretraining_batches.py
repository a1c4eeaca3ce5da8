"""TensorFlow's pipelines: pretraining batches as a `tf.data.Dataset`, and Google's files of pretraining examples."""

import os
import weakref
from collections.abc import Sequence
from typing import Any


def tf_pretraining_batches(batches: Any, epochs: int | None = 1) -> Any:
    """The batches of a `PretrainingBatches`, made in TensorFlow's threads while a model trains.

    Args:
        batches: a `PretrainingBatches`; the dataset starts at its `start_epoch`, and its `workers` is the number of threads.
        epochs: number of consecutive epochs; None for no end. With more than one, pass `steps_per_epoch` to `fit`.

    Returns:
        A `tf.data.Dataset` of the batches in order, with static shapes unless `batches` pads to several lengths.
    """
    steps, start = len(batches), batches.epoch

    def batch(number):
        epoch, index = divmod(number, steps)
        return batches.batch(start + epoch, index)

    return _dataset(batch, None if epochs is None else epochs * steps, batches.made_ahead_by, static=batches.lengths is None)


def tf_epoch_of_batches(batches):
    """One epoch of `EpochBatches` with several lengths, made in TensorFlow's threads, as many as it has workers.

    From the first two batches of a `PyDataset`, Keras infers which dimensions vary, and here both may have the same length by
    chance.

    Args:
        batches: `EpochBatches` of batches `((tokens, segments, chosen), labels)`.

    Returns:
        A `tf.data.Dataset` of the batches in order, of any length.
    """
    return _dataset(batches.__getitem__, len(batches), batches.made_ahead_by, static=False)


def _dataset(batch, count, threads, static):
    import tensorflow as tf

    from keras_bert_rebuild.kernels.tensorflow_pipelines import AHEAD, not_tuned

    example = batch(0)
    # The second dimension of every array is the length, except for the labels of pairs.
    shapes = [array.shape if static or array.shape[1] == 1 else (len(array), None, *array.shape[2:]) for array in _flat(example)]

    reference: Any = weakref.ref(batch)  # TensorFlow keeps `on_host` for ever

    def on_host(number):
        return _flat(reference()(int(number)))

    def make(number):
        made = tf.numpy_function(on_host, [number], [tf.int32] * len(shapes))
        for tensor, shape in zip(made, shapes, strict=True):
            tensor.set_shape(shape)
        return tf.nest.pack_sequence_as(example, made)

    numbers = tf.data.Dataset.counter(dtype=tf.int64) if count is None else tf.data.Dataset.range(count)
    numbers.batch = batch  # kept as long as the dataset and its iterators
    return not_tuned(numbers.map(make, num_parallel_calls=max(1, threads), deterministic=True).prefetch(max(AHEAD, threads)))


def _flat(batch):
    x, y = batch
    return [*x, *(y if isinstance(y, tuple) else (y,))]


def read_pretraining_records(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    batch_size: int,
    seq_len: int,
    max_predictions: int,
    next_sentence: bool = True,
) -> Any:
    """Batches of the examples in TFRecord files of `create_pretraining_data.py` of google-research/bert.

    TensorFlow must be installed; the model may be on any backend.

    Args:
        paths: a file or a list of files; all are compressed if the name of the first ends in `.gz`.
        batch_size: examples per batch; the last batch may have fewer.
        seq_len, max_predictions: `max_seq_length` and `max_predictions_per_seq` of the script.
        next_sentence: whether the model has a head for the next-sentence label.

    Returns:
        A `tf.data.Dataset` of batches `((tokens, segments, chosen), (labels, next))` or `((tokens, segments, chosen), labels)`,
        int32, in the order of the files, see `PretrainingBatches.batch`; labels are the tokens before masking,
        `(batch, seq_len, 1)`. Reading it raises TensorFlow's errors for a damaged file, or for an example of another shape.
    """
    import tensorflow as tf

    files = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    lengths = {"input_ids": seq_len, "segment_ids": seq_len, "masked_lm_positions": max_predictions}
    lengths |= {"masked_lm_ids": max_predictions, "next_sentence_labels": 1}
    features = {name: tf.io.FixedLenFeature([length], tf.int64) for name, length in lengths.items()}
    features["masked_lm_weights"] = tf.io.FixedLenFeature([max_predictions], tf.float32)  # 1 at real predictions, else 0

    def batch(records):
        examples = tf.io.parse_example(records, features)
        integers = {name: tf.cast(examples[name], tf.int32) for name in lengths}
        slots = tf.where(examples["masked_lm_weights"] > 0)
        positions = tf.gather_nd(examples["masked_lm_positions"], slots)
        positions_of_rows = tf.stack([slots[:, 0], positions], axis=1)
        tokens, ids = integers["input_ids"], tf.gather_nd(integers["masked_lm_ids"], slots)
        predicted = tf.tensor_scatter_nd_update(tf.zeros_like(tokens), positions_of_rows, tf.ones_like(ids))
        labels = tf.tensor_scatter_nd_update(tokens, positions_of_rows, ids)[..., None]
        x = tokens, integers["segment_ids"], predicted
        return x, (labels, integers["next_sentence_labels"]) if next_sentence else labels

    records = tf.data.TFRecordDataset(files, "GZIP" if files[0].endswith(".gz") else "")
    return records.batch(batch_size).map(batch).prefetch(tf.data.AUTOTUNE)
