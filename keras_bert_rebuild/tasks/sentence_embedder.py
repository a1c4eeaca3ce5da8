"""Vectors of sentences, trained so that texts alike have vectors of one direction."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.encode_windows import encode_windows
from keras_bert_rebuild.tasks.grouped_batches import GroupedBatches
from keras_bert_rebuild.tasks.predict_rows import buckets_up_to
from keras_bert_rebuild.tasks.sentence_files import sentence_files
from keras_bert_rebuild.tasks.task import Encoded, Task, example_list, place_of, weighted_mean
from keras_bert_rebuild.training.task_losses import CosineLoss, InBatchNegativesLoss

OBJECTIVES = ("cosine", "in_batch_negatives")


class SentenceEmbedder(Task):
    """Give texts vectors, and pairs of texts the cosine between theirs.

        vector = Σ_windows tokens · mean over tokens (last block) / Σ_windows tokens, made 1 long

    Args:
        model: a `BertModel` without heads, whose output is that of the last block; the mean over tokens comes on top.
        tokenizer: as for `task_tokenizer`.
        objective: what it is trained for: "cosine", to have cosines that match the scores of pairs; "in_batch_negatives", to find
            the second text of every pair among those of the batch, of which no two should then be the same.
        score_range: the scores that mean the least and the most alike, cosines 0 and 1.
        scale: of "in_batch_negatives", what cosines are multiplied with.
        max_len, stride: as of `Task`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    kind = "embedding"
    heads = ()

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        objective: str = "cosine",
        score_range: Sequence[float] = (0.0, 1.0),
        scale: float = 20.0,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        if getattr(model, "config", None) is None or not set(heads_of(model)) <= {"pooler"}:
            raise ValueError("SentenceEmbedder must have a BertModel without heads; from_encoder makes one.")
        self.encoder = model
        pooled = keras.layers.GlobalAveragePooling1D(dtype="float32", name="Pool-Ave")(model.outputs[0])
        with_mean = BertModel(model.inputs if len(model.inputs) > 1 else model.inputs[0], pooled)
        with_mean.config, with_mean.load_report = model.config, getattr(model, "load_report", None)
        super().__init__(with_mean, tokenizer, max_len=max_len, stride=stride)
        low, high = score_range
        if objective not in OBJECTIVES or not low < high:
            known = " or ".join(OBJECTIVES)
            raise ValueError(f"objective must be {known}, and score_range rise; got {objective!r} and {tuple(score_range)}.")
        self.objective = objective
        self.score_range = float(low), float(high)
        self.scale = scale

    def __call__(self, texts: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The vectors of texts, `(texts, hidden)`, float32, each 1 long.

        Raises:
            ValueError: not a list, or an empty one.
        """
        return self._vectors(example_list(texts, "texts"), batch_size, None)

    def similarity(self, firsts: Sequence[str], seconds: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The cosines of texts and those that stand at the same place in another list, `(texts,)`.

        Raises:
            ValueError: not a list, an empty one, or not as many second texts as first ones.
        """
        firsts, seconds = example_list(firsts, "firsts"), example_list(seconds, "seconds")
        if len(firsts) != len(seconds):
            raise ValueError(f"there must be as many second texts as first ones, {len(firsts)}; got {len(seconds)}.")
        vectors = self._vectors([*firsts, *seconds], batch_size, None)
        return np.sum(vectors[: len(firsts)] * vectors[len(firsts) :], axis=1)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The rows of pairs, first and second in turn; of a long text every window makes a pair, with the last of a shorter one."""
        examples = example_list(examples)
        windows = self._windows(list(itertools.chain.from_iterable((example.first, example.second) for example in examples)))
        scores = [example.score for example in examples]
        if self.objective == "in_batch_negatives":
            scores = [0.0] * len(examples)
        elif any(score is None for score in scores):
            return Encoded(windows)
        targets = np.array([self._target(score, place_of(examples[i], i)) for i, score in enumerate(scores)], "float32")
        return Encoded(windows, targets)

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> GroupedBatches:
        """Batches of pairs for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts pairs."""
        if encoded.targets is None:
            raise ValueError("every pair must have a score, to be trained for cosines; one at least has none.")
        inputs, padding = self._inputs(encoded.windows)
        bounds = np.searchsorted(encoded.windows.examples, np.arange(2 * len(encoded.targets) + 1)).tolist()
        rows, owners = [], []
        for pair in range(len(encoded.targets)):
            first, second, behind = bounds[2 * pair : 2 * pair + 3]
            # In-batch negatives must not meet another window of their own pair.
            count = 1 if self.objective == "in_batch_negatives" else max(second - first, behind - second)
            for i in range(count):
                rows += [min(first + i, second - 1), min(second + i, behind - 1)]
                owners += [pair, pair]
        return GroupedBatches(
            [[values[i] for i in rows] for values in inputs],
            encoded.targets[owners],
            group=2,
            batch_size=batch_size,
            buckets=buckets_up_to(self.max_len),
            seed=seed,
            padding=padding,
            **kwargs,
        )

    def loss(self) -> keras.losses.Loss:
        """The squared error of cosines, or cross entropy over the batch."""
        return CosineLoss() if self.objective == "cosine" else InBatchNegativesLoss(self.scale)

    def predict_examples(
        self, examples: Iterable[Any], batch_size: int = 32, progress: Callable[[int, int], object] | None = None
    ) -> list[Any]:
        """A number for every pair, in the range of the scores: the cosine, stretched from 0 to 1 onto it."""
        examples = example_list(examples)
        texts = list(itertools.chain.from_iterable((example.first, example.second) for example in examples))
        vectors = self._vectors(texts, batch_size, progress)
        low, high = self.score_range
        return (low + np.sum(vectors[::2] * vectors[1::2], axis=1) * (high - low)).tolist()

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Pearson's and Spearman's correlation of scores."""
        from keras_bert_rebuild.tasks.metrics import regression_scores

        return regression_scores([example.score for example in examples], list(answers))

    def settings(self) -> dict[str, Any]:
        own = {"objective": self.objective, "score_range": list(self.score_range), "scale": self.scale}
        return {**super().settings(), **own}

    def further_files(self) -> dict[str, bytes]:
        """What makes a folder of Hugging Face one that sentence-transformers reads, too."""
        return sentence_files(self.model.config.hidden_size, self.max_len)

    def model_to_save(self) -> keras.Model:
        return self.encoder

    def _windows(self, texts):
        return encode_windows(self.tokenizer, texts, max_len=self.max_len, stride=self.stride)

    def _vectors(self, texts, batch_size, progress):
        windows = self._windows(texts)
        vectors = weighted_mean(self._predict(windows, batch_size, progress), windows)
        return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype("float32")

    def _target(self, score, where):
        low, high = self.score_range
        if self.objective == "cosine" and (isinstance(score, str) or not low <= score <= high):
            raise ValueError(f"a score must be a number from {low:g} to {high:g}, the score_range; {where} has {score!r}.")
        return (score - low) / (high - low)
