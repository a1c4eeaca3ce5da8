"""What all tasks have in common: a model, a tokenizer, and the way from examples to answers."""

import abc
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.example_kinds import Kind
from keras_bert_rebuild.data.length_buckets import BucketedBatches
from keras_bert_rebuild.data.model_inputs import model_inputs
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.encode_windows import Encoded, Windows, encode_windows, row_length
from keras_bert_rebuild.tasks.metrics.correlation import LOWER_IS_BETTER
from keras_bert_rebuild.tasks.model_with_head import model_with_head
from keras_bert_rebuild.tasks.predict_rows import buckets_up_to, predict_rows
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.task_tokenizer import task_tokenizer

# Called with the rows done and all rows.
Progress: TypeAlias = Callable[[int, int], object] | None


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

    examples: str | Kind
    """The examples that it learns from and answers, as for `read_examples`."""

    metrics: tuple[str, ...]
    """The names of its scores; the first that an evaluation gives chooses the best weights."""

    lower_is_better: tuple[str, ...] = LOWER_IS_BETTER
    """The scores that are better the less they are."""

    options: tuple[str, ...] = ()
    """The fields of `FinetuneSettings` that only some tasks take and this one does."""

    answers_by_id = False
    """Whether a row of its answers has an `id` and an `answer`, so that a .json file can hold one by the other."""

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

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        """What `finetune` and `predict` know the class by: its kind, where it says nothing else."""
        return (FinetuneTask(cls.kind, cls, cls.examples, cls.metrics, options=cls.options),)

    @property
    def word(self) -> FinetuneTask:
        """The one of `words` that the task is."""
        return self.words()[0]

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        """What `from_encoder` is told besides, for a training on examples, such as their labels.

        Args:
            examples: a list of them.
            options: what the fine-tuning is told of each of the class's `options`.
            **settings: those of the word.
        """
        return {}

    @classmethod
    def label_counts(cls, examples: Sequence[Any], weighed: bool = False, **settings: Any) -> Counter | None:
        """How often examples have each label, where all of one would leave nothing to learn; else None.

        Args:
            examples: a list of them.
            weighed: None also where the loss takes no weights for these labels.
            **settings: those of the word.
        """
        return None

    @abc.abstractmethod
    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The `Encoded` rows of examples."""

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss to train with."""

    @abc.abstractmethod
    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """An answer for every example, in their order; `progress` is called with the rows done and all rows."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """The metrics of the field, `{name: number}`, of answers to examples that tell what is right."""

    def tuned_answers(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """As `predict_examples`, where settings that only decide how to answer are first set to the best for the examples."""
        return self.predict_examples(examples, batch_size=batch_size, progress=progress)

    def details(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        """What a report shows besides the scores: `classes`, scores by label, and `labels` and `confusion`, rows of the matrix."""
        return {}

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        """What a file of answers says of an example, plain values by name: what a model is shown of it, and the answer."""
        return {**example.shown(), **(answer._asdict() if hasattr(answer, "_asdict") else {"answer": answer})}

    def rate_multipliers(self) -> dict[str, float]:
        """Factors of the rate for weights that learn at another one than the head, `{regular expression over paths: factor}`."""
        return {}

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
        return self.grouped_batches(encoded, range(len(encoded)), encoded.targets, 1, batch_size, seed, **kwargs)

    def grouped_batches(
        self, encoded: Encoded, rows: Sequence[int], labels: Any, group: int, batch_size: int, seed: int | None, **kwargs: Any
    ) -> BucketedBatches:
        """Batches of rows that belong together, groups of `group` that stand one behind the other: see `batches`.

        `rows` are the numbers of rows of `encoded`, some perhaps several times; `labels` are what the model should answer to each.
        """
        inputs, padding = self._inputs(encoded.windows)
        inputs, buckets = [[values[i] for i in rows] for values in inputs], buckets_up_to(self.max_len)
        return BucketedBatches(inputs, labels, batch_size, buckets, seed, padding, self.label_padding, group, **kwargs)

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

    def windows(self, texts: Iterable[Any], pairs: Iterable[str] | None = None, **options: Any) -> Windows:
        """`encode_windows` of texts or pairs of texts, with the tokenizer, `max_len` and `stride` of the task."""
        return encode_windows(self.tokenizer, texts, pairs, max_len=self.max_len, stride=self.stride, **options)

    def _inputs(self, windows):
        return model_inputs([tensor.name for tensor in self.model.inputs], windows.ids, windows.segments, self.tokenizer.pad_id)

    def predict_windows(self, windows: Windows, batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """What the model answers to `Windows`, an array a row; `weighted_mean` makes one answer for each example of them."""
        inputs, padding = self._inputs(windows)
        options = {"max_len": self.max_len, "batch_size": batch_size, "per_token": self.per_token, "progress": progress}
        return predict_rows(self.model, inputs, padding, **options)


def example_list(examples: Any, name: str = "examples") -> list[Any]:
    """A list with at least one example; else a ValueError."""
    if isinstance(examples, (str, bytes)) or not hasattr(examples, "__iter__"):
        raise ValueError(f"{name} must be a list; got {type(examples).__name__} {str(examples)[:40]!r}.")
    examples = list(examples)
    if not examples:
        raise ValueError(f"{name} must be a list of at least one; got an empty one.")
    return examples


def paired_lists(firsts, seconds):
    """First and second texts as lists of the same length, at least one; else a ValueError."""
    firsts, seconds = example_list(firsts, "firsts"), example_list(seconds, "seconds")
    if len(firsts) != len(seconds):
        raise ValueError(f"there must be as many second texts as first ones, {len(firsts)}; got {len(seconds)}.")
    return firsts, seconds


def place_of(example, number):
    """How an example is named in errors: by its file and line, or by its number."""
    return getattr(example, "where", "") or f"example {number}"
