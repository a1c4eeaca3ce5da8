"""What a model answers to rows of any length, in batches of about the same length."""

import numpy as np

from keras_bert_rebuild.data.length_buckets import BUCKETS, bucket_batches, padded
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks.one_at_a_time import predicted

# Texts of tasks are short, of 12 tokens as often as of 200. On JAX, which compiles a program for every length, there are fewer.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def buckets_up_to(max_len):
    """The lengths that rows are padded to."""
    lengths = BUCKETS if traits.compiles_each_shape() else LENGTHS
    return (*(length for length in lengths if length < max_len), max_len)


def model_inputs(model, ids, segments, pad_id):
    """What a model takes, by the names of its inputs: lists of rows and what each is filled up with.

    Args:
        model: a `BertModel` with the inputs `Input-Token` and perhaps `Input-Segment`.
        ids, segments: lists of rows.
        pad_id: the token of padding.

    Raises:
        ValueError: the model has an input that this does not know.
    """
    known = {"Input-Token": (ids, pad_id), "Input-Segment": (segments, 0)}
    names = [tensor.name for tensor in model.inputs]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"the model must have the inputs {' and '.join(known)}; it has {', '.join(unknown)}, too.")
    return [known[name][0] for name in names], [known[name][1] for name in names]


def predict_rows(model, inputs, padding, *, max_len, batch_size=32, per_token=False, progress=None):
    """Predict rows, each in a batch of rows of its length.

    Args:
        model: the model, with one output.
        inputs, padding: as from `model_inputs`.
        max_len: tokens of the longest row there may be.
        batch_size: rows of a batch.
        per_token: whether the model answers for every token; answers for padding are left out.
        progress: called with the rows done and all rows, after every batch.

    Returns:
        A list of float32 arrays, in the order of the rows.
    """
    lengths = [len(row) for row in inputs[0]]
    answers, done = [None] * len(lengths), 0
    for indexes, length in bucket_batches(lengths, batch_size, buckets_up_to(max_len)):
        # A batch that is not full is filled up to a power of two: every shape is compiled once.
        rows = np.resize(indexes, min(batch_size, 1 << (len(indexes) - 1).bit_length()))
        x = [padded([values[i] for i in rows], length, pad) for values, pad in zip(inputs, padding, strict=True)]
        outputs = predicted(model, x if len(x) > 1 else x[0]).astype("float32", copy=False)
        for i, output in zip(indexes, outputs[: len(indexes)], strict=True):
            answers[i] = output[: lengths[i]] if per_token else output
        done += len(indexes)
        if progress is not None:
            progress(done, len(lengths))
    return answers
