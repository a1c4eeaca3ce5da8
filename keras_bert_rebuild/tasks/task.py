"""What all tasks have in common: a model, a tokenizer, and the way from examples to answers."""

import abc
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.length_buckets import BucketedBatches
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.encode_windows import Windows
from keras_bert_rebuild.tasks.model_with_head import model_with_head
from keras_bert_rebuild.tasks.predict_rows import buckets_up_to, model_inputs, predict_rows
from keras_bert_rebuild.tasks.task_tokenizer import task_tokenizer

# Beyond, memory for attention grows with the square; models with more positions take `max_len`.
LONGEST = 512


@dataclass
class Encoded:
    """Examples as rows for a model."""

    windows: Windows
    """The tokens; a long text has several rows."""

    targets: Any = None
    """What the model should answer for every row; None where an example does not tell."""

    @property
    def examples(self) -> npt.NDArray[Any]:
        """The example that every row belongs to `(rows,)`."""
        return self.windows.examples

    def __len__(self) -> int:
        return len(self.windows.ids)


class Task(abc.ABC):
    """A model with a head, its tokenizer, and what they are used for. Abstract.

    Args:
        model: a `BertModel` with the head of the task.
        tokenizer: as for `task_tokenizer`.
        max_len: tokens of a row at the most; None for what the model can take, 512 at the most. Longer texts go in windows.
        stride: tokens that a window shares with the next; None for a quarter of `max_len`.
    """

    kind: str
    """The word for the task in files and commands."""

    heads: tuple
    """The heads of its model."""

    per_token = False
    """Whether its model answers for every token."""

    label_padding: int | None = None
    """What targets of tokens are filled up with."""

    def __init__(self, model: keras.Model, tokenizer: Any = None, *, max_len: int | None = None, stride: int | None = None) -> None:
        if getattr(model, "config", None) is None or not set(self.heads) <= set(heads_of(model)):
            wanted = f"the head {self.heads[0]}" if self.heads else "a config"
            raise ValueError(f"{type(self).__name__} must have a BertModel with {wanted}; from_encoder makes one.")
        self.model = model
        self.tokenizer, self.tokenizer_files = task_tokenizer(model, tokenizer)
        self.max_len = row_length(model, max_len)
        self.stride = min(self.max_len // 4, self.max_len // 2 - 3) if stride is None else int(stride)
        if not 0 <= self.stride <= self.max_len // 2 - 3:
            raise ValueError(
                f"stride must be from 0 to {self.max_len // 2 - 3} tokens, so that windows of pairs go on; got {self.stride}."
            )

    @classmethod
    def from_encoder(
        cls,
        encoder: str | Path | keras.Model,
        tokenizer: Any = None,
        *,
        labels: Sequence[str] = (),
        seed: int = 0,
        dtype: str | None = None,
        rates: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> Self:
        """The task with a fresh head on an encoder.

        Args:
            encoder: the path of a checkpoint, as for `from_pretrained`, or a loaded or trained model.
            tokenizer: None for the one beside the weights; else as for `task_tokenizer`.
            labels: names of the labels, where the task has any.
            seed: the head is drawn from it, the same on every backend.
            dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
            rates: dropout rates to change, fields of `BertConfig`.
            **settings: those of the class.
        """
        model = model_with_head(encoder, cls.heads, labels, seed=seed, dtype=dtype, **(rates or {}))
        return cls(model, tokenizer, **settings)

    @abc.abstractmethod
    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The `Encoded` rows of examples."""

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss to train with."""

    @abc.abstractmethod
    def predict_examples(
        self, examples: Iterable[Any], batch_size: int = 32, progress: Callable[[int, int], object] | None = None
    ) -> list[Any]:
        """An answer for every example, in their order; `progress` is called with the rows done and all rows."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """The metrics of the field, `{name: number}`, of answers to examples that tell what is right."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the model's outputs."""
        return self.model.config.labels

    def settings(self) -> dict[str, Any]:
        """What the constructor is told besides model and tokenizer, for task.json."""
        return {"max_len": self.max_len, "stride": self.stride}

    def compile(self, optimizer: Any, class_weights: Mapping[str, float] | None = None, **kwargs: Any) -> None:
        """Compile the model with the loss of the task.

        Args:
            optimizer: such as `AdamW`.
            class_weights: `{label: weight}` for tasks with one label each; what it does not name has 1.
            **kwargs: for `model.compile`.
        """
        loss: Callable[..., keras.losses.Loss] = self.loss  # tasks with one label each take weights
        self.model.compile(optimizer=optimizer, loss=loss() if class_weights is None else loss(class_weights), **kwargs)

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> keras.utils.PyDataset:
        """Batches for `fit` and `evaluate`, each padded to the least of few lengths.

        Args:
            encoded: as from `encode`.
            batch_size: rows of a batch.
            seed: for a random order, another one every epoch; None for none: the short examples first, as for an evaluation.
            **kwargs: as of `BucketedBatches`.

        Raises:
            ValueError: an example does not tell what is right.
        """
        if encoded.targets is None:
            raise ValueError("every example must tell what is right, to be trained on; one at least does not.")
        inputs, padding = self._inputs(encoded.windows)
        return BucketedBatches(
            inputs,
            encoded.targets,
            batch_size=batch_size,
            buckets=buckets_up_to(self.max_len),
            seed=seed,
            padding=padding,
            label_padding=self.label_padding,
            **kwargs,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Hugging Face folder, with what it has no room for in task.json: see `load_task`."""
        from keras_bert_rebuild.tasks.saved_task import save_task

        save_task(self, path)

    @classmethod
    def of_model(cls, model: keras.Model, tokenizer: Any = None, **settings: Any) -> Self:
        """The task with a model that has its heads, as `load_task` reads it."""
        return cls(model, tokenizer, **settings)

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """What a config, as of a Hugging Face folder, says of the settings of the class."""
        return {}

    def model_to_save(self) -> keras.Model:
        """The model whose weights are written."""
        return self.model

    def further_files(self) -> dict[str, bytes]:
        """What lies beside the weights besides: name to bytes."""
        return {}

    def _inputs(self, windows):
        return model_inputs(self.model, windows.ids, windows.segments, self.tokenizer.pad_id)

    def _predict(self, windows, batch_size, progress):
        """What the model answers, an array a row."""
        inputs, padding = self._inputs(windows)
        options = {"max_len": self.max_len, "batch_size": batch_size, "per_token": self.per_token, "progress": progress}
        return predict_rows(self.model, inputs, padding, **options)


def row_length(model, max_len):
    """`max_len`, or where it is None what the model can take, `LONGEST` at the most; a ValueError for more than it can take."""
    longest = model.config.max_length
    length = min(longest, LONGEST) if max_len is None else int(max_len)
    if not 8 <= length <= longest:
        raise ValueError(f"max_len must be from 8 to {longest}, the positions of the model; got {length}.")
    return length


def example_list(examples: Any, name: str = "examples") -> list[Any]:
    """A list with at least one example; else a ValueError."""
    if isinstance(examples, (str, bytes)) or not hasattr(examples, "__iter__"):
        raise ValueError(f"{name} must be a list; got {type(examples).__name__} {str(examples)[:40]!r}.")
    examples = list(examples)
    if not examples:
        raise ValueError(f"{name} must be a list of at least one; got an empty one.")
    return examples


def place_of(example, number):
    """How an example is named in errors: by its file and line, or by its number."""
    return getattr(example, "where", "") or f"example {number}"


def weighted_mean(rows, windows):
    """One answer for each example: the mean of those of its windows, each with the weight of its tokens, `(examples, ...)`."""
    weights = np.array([len(ids) for ids in windows.ids], "float64")
    rows = np.stack(rows).astype("float64")
    starts = np.flatnonzero(np.diff(windows.examples, prepend=-1))
    shape = (-1, *[1] * (rows.ndim - 1))
    return np.add.reduceat(rows * weights.reshape(shape), starts) / np.add.reduceat(weights, starts).reshape(shape)
