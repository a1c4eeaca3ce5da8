"""The base class of tasks whose vectors are trained: the objective, its examples, and the training model."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras

from keras_bert_rebuild.models.packed_vectors import LOG_SCALE
from keras_bert_rebuild.tasks.embedder import Embedder
from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS
from keras_bert_rebuild.tasks.objectives import OBJECTIVES, Objective, VectorTraining, objectives_for
from keras_bert_rebuild.tasks.packed_training import training_model_of
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.task import Progress
from keras_bert_rebuild.tasks.text_rows import Encoded, example_list
from keras_bert_rebuild.tasks.vector_examples import VECTOR_EXAMPLES, check_objective


class VectorTask(Embedder):
    """A task whose model computes a vector for a text, trained by an objective. Abstract."""

    examples = "similarity"
    metrics = REGRESSION_METRICS
    saved_first = ("max_len", "stride", "objective", "score_range", "scale", "example_kind")
    unsaved = ("modules", "training")
    without_effect = (*Embedder.without_effect, "score_range", "example_kind")
    poolings: tuple[str, ...]
    modules: Sequence[keras.layers.Layer]
    normalize: bool
    measure: str
    truncate_dim: int | None

    def set_objective(
        self,
        objective: str | None,
        score_range: Sequence[float],
        scale: float | None,
        example_kind: str,
        training: VectorTraining | None,
    ) -> None:
        """Set the training objective; the arguments are those of `SentenceEmbedder`.

        Raises:
            ValueError: the kind of examples is unknown, the objective does not suit it, or the range of scores is empty.
        """
        if example_kind not in VECTOR_EXAMPLES:
            raise ValueError(f"example_kind must be one of {', '.join(VECTOR_EXAMPLES)}; got {example_kind!r}.")
        objective = objectives_for(example_kind)[0] if objective is None else objective
        check_objective(objective, example_kind)
        low, high = score_range
        if not low < high:
            raise ValueError(f"score_range must be ascending; got {tuple(score_range)}.")
        self.examples = self.example_kind = example_kind
        self.objective = objective
        self.score_range = float(low), float(high)
        self.scale = OBJECTIVES[objective].default_scale if scale is None else float(scale)
        training = VectorTraining() if training is None else training
        self.training = replace(training, symmetric=example_kind == "similarity") if training.symmetric is None else training
        self._trained = self._learned_scale = None

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        return tuple(
            FinetuneTask(of.name, cls, kind, of.metrics, {"example_kind": kind}, of.options) for kind, of in VECTOR_EXAMPLES.items()
        )

    @property
    def word(self) -> FinetuneTask:
        return next(word for word in self.words() if word.examples == self.examples)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        kind = settings.get("example_kind", "similarity")
        objective = options["objective"] or VECTOR_EXAMPLES[kind].objective_for(examples)
        check_objective(objective, kind)
        arguments = {name: value for name, value in options.items() if name in VectorTraining.__dataclass_fields__}
        prompts = {name: options.get(f"{name}_prompt") for name in ("query", "document")}
        return {
            "objective": objective,
            "scale": None if options.get("temperature") is None else 1.0 / options["temperature"],
            "training": VectorTraining(**arguments),
            **({"prompts": {name: prompt for name, prompt in prompts.items() if prompt}} if any(prompts.values()) else {}),
            **(OBJECTIVES[objective].settings_for([example.score for example in examples]) if kind == "similarity" else {}),
        }

    @classmethod
    def label_counts(cls, examples: Sequence[Any], weighed: bool = False, **settings: Any) -> Counter | None:
        labelled = settings.get("example_kind") == "classification" and not weighed
        return Counter(example.label for example in examples) if labelled else None

    def encode(self, examples: Iterable[Any]) -> Encoded:
        return self._examples.encode(example_list(examples))

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> keras.utils.PyDataset:
        """Batches for `training_model.fit`: see `Task.batches`; `batch_size` counts pairs, groups or texts with labels.

        Batches are random, regardless of the lengths of texts; with `seed=None` they are consecutive examples in order.
        """
        return self._examples.batches(encoded, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective."""
        loss = self.training_objective.loss()
        if self._learned_scale is not None:
            loss.learned_scale = self._learned_scale
        return loss

    @property
    def training_model(self) -> keras.Model:
        """The model that is trained: one with the layers of the task that takes packed rows, see `VectorExamples.packed`."""
        if not self._examples.packed:
            return self.model
        if self._trained is None:
            self._trained, vectors = training_model_of(self, self.poolings, self.modules)
            if self.training.learned_temperature:
                self._learned_scale = vectors.learn_scale(self.scale)
        return self._trained

    def rate_multipliers(self) -> dict[str, float]:
        # The logarithm of a temperature needs larger steps than weights.
        return {f"{LOG_SCALE}$": 100.0} if self.training.learned_temperature else {}

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """For every pair its cosine, mapped linearly from [0, 1] to the range of the scores; for every query the best of the
        texts of all examples, `{text: score}`; for every text with a label the nearest other examples, `{index: score}`."""
        return self._examples.answers(example_list(examples), batch_size, progress)

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """For pairs Pearson's and Spearman's correlation, and average precision if scores are 0 and 1; else scores of rankings."""
        return self._examples.scores(examples, answers)

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        return self._examples.row(example, answer)

    def settings(self) -> dict[str, Any]:
        values = super().settings()
        if self._learned_scale is not None:
            values["scale"] = float(keras.ops.convert_to_numpy(self._learned_scale()))
        if self.examples == "similarity":
            del values["example_kind"]
        return values

    @property
    def training_objective(self) -> Objective:
        """The `Objective` that the vectors are trained for."""
        training = self.training
        if training.matryoshka_dims is None and self.truncate_dim is not None:
            training = replace(training, matryoshka_dims=(self.truncate_dim,))
        similarity = "cosine" if self.normalize or self.measure == "cosine" else "dot"
        return OBJECTIVES[self.objective](self.score_range, self.scale, training, similarity)

    @property
    def _examples(self):
        return VECTOR_EXAMPLES[self.examples](self)
