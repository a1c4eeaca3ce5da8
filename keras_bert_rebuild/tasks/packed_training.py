"""Batches of packed rows from groups of texts, and the model with the layers of a task that is trained on them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.labelled.group_batches import PackedGroups
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.devices_in_use import parts_of_batch
from keras_bert_rebuild.models.packed_vectors import TextVectors, can_be_packed, vector_model
from keras_bert_rebuild.tasks.text_rows import Encoded, Windows

# Rows have at least this length, if the model allows it, so that several short texts share one.
SHORTEST_ROW = 128

# Lengths of rows are multiples of this.
STEP = 8


@dataclass
class EncodedGroups(Encoded):
    """Groups of texts as rows of tokens; `targets`, if any, are those of the groups."""

    groups: Any = None
    """The indices of the rows of every group, -1 for none, `(groups, texts per group)`."""

    texts: Sequence[str] = ()
    """The different texts without their prompts."""

    same: Any = None
    """The index in `texts` of the text of every row `(rows,)`."""

    scores: Any = None
    """Scores of a teacher `(examples, texts per group)`, or labels `(examples,)`."""

    refused: str | None = None
    """Which example has a score that cannot be learned, if one has."""

    @classmethod
    def of(cls, task: Any, prompted: Sequence[tuple[str, str]], groups: Any, scores: Any) -> "EncodedGroups":
        """The groups, tokenised for a task: a row for every different text; long texts are truncated.

        Args:
            task: a `Task`.
            prompted: the different texts, each a prompt and a text.
            groups, scores: see the fields.
        """
        encoding = task.tokenizer.encode_batch([prompt + text for prompt, text in prompted], max_len=task.max_len)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(text for _, text in prompted))}
        windows = Windows(encoding.ids, encoding.segments, np.arange(len(prompted)), [], [], [], [])
        return cls(windows, None, groups, list(numbers), np.array([numbers[text] for _, text in prompted]), scores)


def numbered(groups: Iterable[Sequence[Any]]) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """The different items of groups, in order of appearance, and the groups as indices of these; -1 for None."""
    numbers: dict[Any, int] = {None: -1}
    rows = [[numbers.setdefault(item, len(numbers) - 1) for item in group] for group in groups]
    del numbers[None]
    return list(numbers), np.array(rows, "int64")


def guide_vectors(guide: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The vectors of texts from a guide, a folder or a `SentenceEmbedder`, computed once before training."""
    if isinstance(guide, (str, Path)):
        from keras_bert_rebuild.tasks.saved_task import load_task

        guide = load_task(guide, "embedding")
    return np.asarray(guide(list(texts)), "float32")


def packed_batches(
    task: Any, encoded: EncodedGroups, targets: Callable[..., Any], batch_size: int, seed: int | None, **kwargs: Any
) -> PackedGroups:
    """The batches of a training.

    Args:
        task: a `SentenceEmbedder`, or another task with a `training` and an `encoder`.
        encoded: the encoded groups.
        targets: as for `PackedGroups`.
        batch_size: groups per batch.
        seed: seed of the order; None for consecutive examples in their order.
        **kwargs: for `PackedGroups`.
    """
    ids, segments, encoder = encoded.windows.ids, encoded.windows.segments, task.encoder
    packed = can_be_packed(encoder)
    longest = max(map(len, ids))
    length = min(max(-(-longest // STEP) * STEP, SHORTEST_ROW), max(longest, encoder.config.max_length))
    one = packed or traits.needs_tf_data_for_several_lengths()
    lengths = [length if packed else longest] if one else bucket_lengths(longest, traits.compiles_each_shape())
    settings = {
        "pad_id": task.tokenizer.pad_id,
        "segments": segments if any(tensor.name == "Input-Segment" for tensor in encoder.inputs) else None,
        "packed": packed,
        "multiple": np.lcm(task.training.chunk or 1, parts_of_batch(encoder)),
        "few_shapes": traits.compiles_each_shape(),
    }
    return PackedGroups(ids, encoded.groups, targets, batch_size, lengths, seed, **{**settings, **kwargs})


def is_split(encoder: keras.Model) -> bool:
    """Whether replicas would each see only a part of the texts of a packed batch, as under TensorFlow."""
    return traits.gives_replicas_whole_single_batches() and parts_of_batch(encoder) > 1


def training_model_of(task: Any, poolings: Any, after: Sequence[keras.layers.Layer] = ()) -> Any:
    """The model with the layers of a task that is trained on packed batches, and its layer that outputs vectors.

    Args:
        task: as for `packed_batches`.
        poolings: as for `TextVectors`.
        after: layers after the pooling.

    Raises:
        ValueError: under TensorFlow, each replica would see only a part of the texts.
    """
    if is_split(task.encoder):
        raise ValueError(
            "expected one device, or JAX, to train vectors: replicas of TensorFlow do not see the negatives of each other; got "
            f"{parts_of_batch(task.encoder)} replicas."
        )
    vectors = TextVectors(
        task.encoder, poolings, after, packed=can_be_packed(task.encoder), chunk=task.training.chunk, name="Text-Vectors"
    )
    return vector_model(task.encoder, vectors), vectors
