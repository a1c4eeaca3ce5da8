"""From groups of texts to batches of packed rows, and the model that is trained on them with the layers of a task."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.labelled.packed_groups import PackedGroups
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.devices_in_use import parts_of_batch
from keras_bert_rebuild.models.packed_vectors import TextVectors, can_be_packed, vector_model
from keras_bert_rebuild.tasks.text_rows import Encoded, Windows

# Rows are at least this long where the model takes it, so that several short texts share one.
SHORTEST_ROW = 128

# Multiples of this are the lengths of rows.
STEP = 8


@dataclass
class EncodedGroups(Encoded):
    """Groups of texts as rows of tokens, one for every different text; a text that is too long is cut."""

    groups: Any = None
    """The numbers of the texts of every group, -1 for none, `(examples, texts of a group)`."""

    texts: Sequence[str] = ()
    """The different texts without their prompts."""

    same: Any = None
    """The number, in `texts`, of the text of every row `(rows,)`."""

    scores: Any = None
    """What is known of a group besides its texts: scores of a teacher `(examples, texts of a group)`, or labels `(examples,)`."""

    @classmethod
    def of(cls, task: Any, prompted: Sequence[tuple[str, str]], groups: Any, scores: Any) -> "EncodedGroups":
        """The groups with the tokens of a task.

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
    """The different items of groups, in the order of their appearance, and the groups as their numbers; -1 for None."""
    numbers: dict[Any, int] = {None: -1}
    rows = [[numbers.setdefault(item, len(numbers) - 1) for item in group] for group in groups]
    del numbers[None]
    return list(numbers), np.array(rows, "int64")


def guide_vectors(guide: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The vectors that a guide, a folder or a `SentenceEmbedder`, computes of texts; once, before the training."""
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
        encoded: its groups.
        targets: as for `PackedGroups`.
        batch_size: groups of a batch.
        seed: of the order; None for consecutive examples in their order.
        **kwargs: for `PackedGroups`.
    """
    ids, encoder = encoded.windows.ids, task.encoder
    packed = can_be_packed(encoder)
    longest = max(map(len, ids))
    length = min(max(-(-longest // STEP) * STEP, SHORTEST_ROW), max(longest, encoder.config.max_length))
    one = packed or traits.needs_tf_data_for_several_lengths()
    lengths = [length if packed else longest] if one else bucket_lengths(longest, traits.compiles_each_shape())
    settings = {
        "pad_id": task.tokenizer.pad_id,
        "segments": any(tensor.name == "Input-Segment" for tensor in encoder.inputs),
        "packed": packed,
        "multiple": np.lcm(task.training.chunk or 1, parts_of_batch(encoder)),
        "few_shapes": traits.compiles_each_shape(),
    }
    return PackedGroups(ids, encoded.groups, targets, batch_size, lengths, seed, **{**settings, **kwargs})


def training_model_of(task: Any, poolings: Any, after: Sequence[keras.layers.Layer] = ()) -> Any:
    """The model that is trained on packed batches, with the layers of a task, and its layer of vectors.

    Args:
        task: as for `packed_batches`.
        poolings: as for `TextVectors`.
        after: layers after the pooling.

    Raises:
        ValueError: replicas of TensorFlow would each see a part of the texts.
    """
    if traits.gives_replicas_whole_single_batches() and parts_of_batch(task.encoder) > 1:
        raise ValueError(
            "expected one device, or JAX, to train vectors: replicas of TensorFlow do not see the negatives of each other; got "
            f"{parts_of_batch(task.encoder)} replicas."
        )
    vectors = TextVectors(
        task.encoder, poolings, after, packed=can_be_packed(task.encoder), chunk=task.training.chunk, name="Text-Vectors"
    )
    return vector_model(task.encoder, vectors), vectors
