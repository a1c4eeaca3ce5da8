"""Vectors of sentences, trained so that similar texts have vectors of similar direction."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.sentence_objectives import OBJECTIVES, objective_for
from keras_bert_rebuild.tasks.sentence_vectors import SentenceVectors
from keras_bert_rebuild.tasks.task import Progress, example_list, place_of
from keras_bert_rebuild.tasks.text_rows import Encoded


class SentenceEmbedder(SentenceVectors):
    """Computes vectors of texts, and the similarity of the vectors of pairs of texts: see `SentenceVectors`.

    Args:
        model, tokenizer: see `SentenceVectors`.
        poolings, modules, normalize, prompts, default_prompt, include_prompt, truncate_dim, measure, truncate: see
            `SentenceVectors`.
        objective: the training objective: "cosine", cosines that match the scores of pairs; "in_batch_negatives", to find the
            second text of every pair among those of the batch, which should be distinct.
        score_range: the scores of least and greatest similarity, cosines 0 and 1.
        scale: factor of the cosines in "in_batch_negatives".
        max_len, stride: see `Task`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    examples = "similarity"
    metrics = REGRESSION_METRICS
    options = ("objective",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        poolings: Sequence[str] = ("mean",),
        modules: Sequence[Any] = (),
        normalize: bool = True,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        include_prompt: bool = True,
        truncate_dim: int | None = None,
        measure: str = "cosine",
        truncate: bool = False,
        objective: str = "cosine",
        score_range: Sequence[float] = (0.0, 1.0),
        scale: float = 20.0,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        super().__init__(
            model,
            tokenizer,
            poolings=poolings,
            modules=modules,
            normalize=normalize,
            prompts=prompts,
            default_prompt=default_prompt,
            include_prompt=include_prompt,
            truncate_dim=truncate_dim,
            measure=measure,
            truncate=truncate,
            max_len=max_len,
            stride=stride,
        )
        low, high = score_range
        if objective not in OBJECTIVES or not low < high:
            known = " or ".join(OBJECTIVES)
            raise ValueError(f"objective must be {known}, and score_range ascending; got {objective!r} and {tuple(score_range)}.")
        self.objective = objective
        self.score_range = float(low), float(high)
        self.scale = scale

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        return (FinetuneTask("similarity", cls, cls.examples, cls.metrics, options=cls.options),)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        scores = [example.score for example in examples]
        objective = options["objective"] or objective_for(scores)
        return {"objective": objective, **OBJECTIVES[objective].settings_for(scores)}

    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The rows of pairs, first and second in turn; every window of a long text forms a pair, with the last of a shorter one."""
        examples = example_list(examples)
        windows = self.windows(list(itertools.chain.from_iterable((example.first, example.second) for example in examples)))
        objective = self._objective
        targets = [objective.target(example.score, place_of(example, i)) for i, example in enumerate(examples)]
        return Encoded(windows, None if None in targets else np.array(targets, "float32"))

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> BucketedBatches:
        """Batches of pairs for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts pairs."""
        if encoded.targets is None:
            raise ValueError("every pair must have a score to be trained for cosines; at least one has none.")
        bounds = np.searchsorted(encoded.windows.examples, np.arange(2 * len(encoded.targets) + 1)).tolist()
        rows, owners, all_windows = [], [], self._objective.all_windows
        for pair in range(len(encoded.targets)):
            first, second, end = bounds[2 * pair : 2 * pair + 3]
            count = max(second - first, end - second) if all_windows else 1
            for i in range(count):
                rows += [min(first + i, second - 1), min(second + i, end - 1)]
                owners += [pair, pair]
        return self.grouped_batches(encoded, rows, encoded.targets[owners], 2, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective: the squared error of cosines, or cross entropy over the batch."""
        return self._objective.loss()

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """A number for every pair: the cosine, mapped linearly from 0 to 1 onto the range of the scores."""
        examples = example_list(examples)
        texts = list(itertools.chain.from_iterable((example.first, example.second) for example in examples))
        vectors = self.compared(texts, batch_size, progress, prompt=None)
        low, high = self.score_range
        return (low + np.sum(vectors[::2] * vectors[1::2], axis=1) * (high - low)).tolist()

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Pearson's and Spearman's correlation of the scores."""
        from keras_bert_rebuild.tasks.metrics import regression_scores

        return regression_scores([example.score for example in examples], list(answers))

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        return {"first": example.first, "second": example.second, "score": round(float(answer), 6)}

    def settings(self) -> dict[str, Any]:
        own = {"objective": self.objective, "score_range": list(self.score_range), "scale": self.scale}
        return {**super().settings(), **own}

    @property
    def _objective(self):
        return OBJECTIVES[self.objective](self.score_range, self.scale)
