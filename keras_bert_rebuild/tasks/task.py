"""The base class of all tasks: a model, a tokenizer, and the way from examples to predictions."""

import abc
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import keras

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.data.labelled.example_kinds import Kind
from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.tasks.metrics.classes import LOWER_IS_BETTER
from keras_bert_rebuild.tasks.model_of_task import model_with_head, task_tokenizer
from keras_bert_rebuild.tasks.registry import FinetuneTask, settings_in_attributes
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.tasks.saved_task import save_task
from keras_bert_rebuild.tasks.text_rows import Encoded, Windows, buckets_for, encode_windows, row_length

# Called with the number of finished rows and the total.
Progress: TypeAlias = Callable[[int, int], object] | None


class Task(abc.ABC):
    """A model with a head and a tokenizer for one purpose. Abstract.

    Args:
        model: a `BertModel` with the head of the task.
        tokenizer: as for `task_tokenizer`.
        max_len: maximum number of tokens in a row; None for the maximum of the model, at most 512. Longer texts are split into
            windows.
        stride: number of tokens that consecutive windows share; None for a quarter of `max_len`.
    """

    kind: str
    """The name of the task in files and commands."""

    heads: tuple
    """The heads of the model."""

    named_by_heads = True
    """Whether weights with these heads and without task.json are loaded as this task."""

    per_token = False
    """Whether the model has an output for every token."""

    label_padding: int | None = None
    """The value that pads targets of tokens."""

    ignored_label: int | None = None
    """A label that the loss of the task ignores, for the `filling` of its batches; None if it counts all labels."""

    in_commands: str | None = None
    """The name of the task on the command line; None for its kind."""

    saved_first: tuple[str, ...] = ("max_len", "stride")
    unsaved: tuple[str, ...] = ()
    """The settings that come first in task.json, and those that it does not have."""

    examples: str | Kind
    """The type of its examples, as for `read_examples`."""

    metrics: tuple[str, ...]
    """The names of its scores; the first one in an evaluation selects the best weights."""

    lower_is_better: tuple[str, ...] = LOWER_IS_BETTER
    """The scores for which lower is better."""

    options: tuple[str, ...] = ()
    """The fields of `FinetuneSettings` that this task accepts and some others do not."""

    shortest_row = 8
    """The minimum of `max_len`: windows of pairs must have room for both texts."""

    row_lengths: list[int] | None = None
    """Lengths that rows are padded to in both training and prediction; None to choose them separately."""

    head_origin = ""
    """What became of the trained head of the model that the task was made from; empty if it had none, or it was not asked for."""

    predicts_encoded_rows = False
    """Whether predictions of examples are those of `predict_windows` for the rows of `encode`."""

    outputs_of: Callable[[Iterable[Any]], Iterator[Any]] | None = None
    """A function like `outputs_of_batches` that computes on copies of the model elsewhere; None to compute here."""

    answers_by_id = False
    """Whether a row of its predictions has an `id` and an `answer`, so that a .json file can map one to the other."""

    def __init__(self, model: keras.Model, tokenizer: Any = None, *, max_len: int | None = None, stride: int | None = None) -> None:
        self.check_model(model)
        self.model = model
        self.tokenizer, self.tokenizer_files = task_tokenizer(model, tokenizer)
        self.max_len = row_length(model, max_len, self.shortest_row)
        most = max(0, self.max_len // 2 - 3)
        self.stride = min(self.max_len // 4, most) if stride is None else int(stride)
        if not 0 <= self.stride <= most:
            raise ValueError(f"stride must be from 0 to {most} tokens, so that windows of pairs advance; got {self.stride}.")

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
        new_head: bool = True,
        **settings: Any,
    ) -> Self:
        """The task with a newly initialised head on an encoder.

        Args:
            encoder: the path of a checkpoint, as for `from_pretrained`, or a loaded or trained model.
            tokenizer: None for the one next to the weights; otherwise as for `task_tokenizer`.
            labels: names of the labels, if the task has any.
            seed: seed of the head, which is the same on every backend.
            dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
            rates: dropout rates to change, fields of `BertConfig`.
            new_head: False to keep the trained head of the encoder if it is for this task and these labels, in any order;
                `head_origin` says so.
            **settings: further arguments of the class.
        """
        source = encoder if isinstance(encoder, keras.Model) else from_pretrained(encoder)
        settings_of_config = cls.settings_of(source.config) if getattr(source, "config", None) is not None else {}
        other = next((value for name, value in settings_of_config.items() if settings.get(name, value) != value), None)
        options = {"new_head": new_head, "other_task": other, **(rates or {})}
        model = model_with_head(source, cls.heads, labels, seed=seed, dtype=dtype, **options)
        task = cls(model, tokenizer, **settings)
        task.head_origin = model.load_report.head
        return task

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        """The names of this class in `finetune` and `predict`; by default its kind."""
        return (FinetuneTask(cls.in_commands or cls.kind, cls, cls.examples, cls.metrics, options=cls.options),)

    @property
    def word(self) -> FinetuneTask:
        """The item of `words` that describes this task."""
        return self.words()[0]

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        """Further settings of `from_encoder` for training on examples, such as their labels.

        Args:
            examples: a list of examples.
            options: the value of each of the class's `options` in the fine-tuning settings.
            **settings: settings of the `FinetuneTask`.
        """
        return {}

    @classmethod
    def label_counts(cls, examples: Sequence[Any], weighed: bool = False, **settings: Any) -> Counter | None:
        """The number of examples of each label if at least two labels are needed to learn anything; else None.

        Args:
            examples: a list of examples.
            weighed: return None also if the loss cannot weight these labels.
            **settings: settings of the `FinetuneTask`.
        """
        return None

    def check_model(self, model: keras.Model) -> None:
        """Raise a ValueError for a model without a config or without the heads of the task."""
        if getattr(model, "config", None) is None or not set(self.heads) <= set(heads_of(model)):
            wanted = f"the head {self.heads[0]}" if self.heads else "a config"
            raise ValueError(f"{type(self).__name__} must have a BertModel with {wanted}; from_encoder makes one.")

    @abc.abstractmethod
    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The `Encoded` rows of examples."""

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss to train with."""

    @abc.abstractmethod
    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """A prediction for every example, in order; `progress` is called with the number of finished rows and the total."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """The standard metrics, `{name: number}`, of the predictions for labelled examples."""

    def tuned_answers(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """As `predict_examples`, but settings that affect only predictions, such as thresholds, are first tuned on the examples."""
        return self.predict_examples(examples, batch_size=batch_size, progress=progress)

    def details(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        """Further parts of a report: `classes`, the scores by label, and `labels` and `confusion`, the rows of the matrix."""
        return {}

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        """An example in a file of predictions, plain values by name: the inputs of the model, and the prediction."""
        return {**example.shown(), **(answer._asdict() if hasattr(answer, "_asdict") else {"answer": answer})}

    def rate_multipliers(self) -> dict[str, float]:
        """Learning rate multipliers of weights that need other rates than the head, `{regular expression over paths: factor}`."""
        return {}

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the model's outputs."""
        return self.model.config.labels

    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor except model and tokenizer, for task.json; each has an attribute of its name."""
        return settings_in_attributes(self)

    def compile(self, optimizer: Any, class_weights: Mapping[str, float] | None = None, **kwargs: Any) -> None:
        """Compile the training model with the loss of the task.

        Args:
            optimizer: an optimizer, such as `AdamW`.
            class_weights: `{label: weight}` for tasks with one label per example; labels that are not in it have weight 1.
            **kwargs: further arguments of `compile`.
        """
        loss: Callable[..., keras.losses.Loss] = self.loss  # tasks with one label for each example accept weights
        self.training_model.compile(optimizer=optimizer, loss=loss() if class_weights is None else loss(class_weights), **kwargs)

    @property
    def training_model(self) -> keras.Model:
        """The model whose `fit` takes the batches of the task; it has the weights of `model`."""
        return self.model

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> keras.utils.PyDataset:
        """Batches for `fit` and `evaluate`, each padded to the shortest possible of a few lengths.

        Args:
            encoded: rows from `encode`.
            batch_size: rows per batch.
            seed: seed of the order, which changes every epoch; None for short examples first, as in an evaluation.
            **kwargs: see `BucketedBatches`.

        Raises:
            ValueError: an example has no label.
        """
        if encoded.targets is None:
            raise ValueError("every example must have a label for training; at least one has none.")
        return self.grouped_batches(encoded, range(len(encoded)), encoded.targets, 1, batch_size, seed, **kwargs)

    def grouped_batches(
        self, encoded: Encoded, rows: Sequence[int], labels: Any, group: int, batch_size: int, seed: int | None, **kwargs: Any
    ) -> BucketedBatches:
        """Batches of rows in consecutive groups of `group` that stay together: see `batches`.

        `rows` are indices of rows of `encoded`, which may repeat; `labels` are their targets.
        """
        inputs, padding = self.inputs_of(encoded.windows)
        inputs = [[values[i] for i in rows] for values in inputs]
        buckets = self.row_lengths or buckets_for([len(row) for row in inputs[0]], self.max_len)
        return BucketedBatches(inputs, labels, batch_size, buckets, seed, padding, self.label_padding, group, **kwargs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the task as a Hugging Face folder, with the other settings in task.json: see `load_task`."""
        save_task(self, path)

    @classmethod
    def from_model(cls, model: keras.Model, tokenizer: Any = None, **settings: Any) -> Self:
        """The task from a model with its heads, as loaded by `load_task`."""
        return cls(model, tokenizer, **settings)

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        """The settings of the class that a config, such as that of a Hugging Face folder, determines."""
        return {}

    def model_to_save(self) -> keras.Model:
        """The model whose weights are saved."""
        return self.model

    def further_files(self) -> dict[str, bytes]:
        """Further files next to the weights: name to bytes."""
        return {}

    def windows(self, texts: Iterable[Any], pairs: Iterable[str] | None = None, **options: Any) -> Windows:
        """`encode_windows` of texts or pairs of texts, with the tokenizer, `max_len` and `stride` of the task."""
        return encode_windows(self.tokenizer, texts, pairs, max_len=self.max_len, stride=self.stride, **options)

    def inputs_of(self, windows: Windows) -> tuple[list[Any], list[int]]:
        """The inputs of the model for `Windows`, a list with an array for each row, and the padding of each input."""
        return model_inputs([tensor.name for tensor in self.model.inputs], windows.ids, windows.segments, self.tokenizer.pad_id)

    def predict_windows(
        self, windows: Windows, batch_size: int = 32, progress: Progress = None, model: keras.Model | None = None
    ) -> list[Any]:
        """The output of the model, or of another with its inputs, for each row of `Windows`: see `weighted_mean`."""
        inputs, padding = self.inputs_of(windows)
        options = {"max_len": self.max_len, "batch_size": batch_size, "per_token": self.per_token, "progress": progress}
        options["outputs_of"] = self.outputs_of if model in (None, self.model) else None
        return predict_rows(model or self.model, inputs, padding, lengths=self.row_lengths, **options)
