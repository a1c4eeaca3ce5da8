"""TensorFlow only: pretraining batches as a `tf.data.Dataset`."""

import weakref
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
