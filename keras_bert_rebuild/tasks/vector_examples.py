"""The kinds of examples for a `SentenceEmbedder`: pairs with scores, groups for retrieval, texts with labels."""

import abc
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS
from keras_bert_rebuild.tasks.metrics.ranking import (
    RETRIEVAL_METRICS,
    best_of,
    retrieval_row,
    retrieval_scores,
    retrieved,
    scores_of_grades,
)
from keras_bert_rebuild.tasks.objectives import OBJECTIVES, objective_for
from keras_bert_rebuild.tasks.packed_training import EncodedGroups, guide_vectors, is_split, numbered, packed_batches
from keras_bert_rebuild.tasks.text_rows import Encoded, example_name
from keras_bert_rebuild.training.retrieval_losses import GUIDE

# Number of queries whose scores with a corpus are computed at once.
BLOCK = 256

# The fields of `FinetuneSettings` for all kinds of examples, and for some of them.
_SHARED = ("objective", "temperature", "matryoshka_dims", "matryoshka_weights")
_OF_GROUPS = ("learned_temperature", "symmetric", "guide", "false_negative_margin", "query_prompt", "document_prompt")


class VectorExamples(abc.ABC):
    """A kind of examples for vectors. Abstract.

    Args:
        task: the `SentenceEmbedder`.
    """

    name: str
    """The name of the task on the command line."""

    metrics: tuple[str, ...] = RETRIEVAL_METRICS
    options: tuple[str, ...] = ()

    def __init__(self, task: Any) -> None:
        self.task = task

    @property
    def packed(self) -> bool:
        """Whether it is trained on packed rows."""
        return True

    @classmethod
    @abc.abstractmethod
    def objective_for(cls, examples: Sequence[Any]) -> str:
        """The default objective."""

    @abc.abstractmethod
    def encode(self, examples: list[Any]) -> Encoded:
        """See `Task.encode`."""

    @abc.abstractmethod
    def batches(self, encoded: Any, batch_size: int, seed: int | None, **kwargs: Any) -> Any:
        """See `Task.batches`."""

    @abc.abstractmethod
    def answers(self, examples: list[Any], batch_size: int, progress: Any) -> list[Any]:
        """See `Task.predict_examples`."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """See `Task.scores`."""

    @abc.abstractmethod
    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        """See `Task.row`."""


class Pairs(VectorExamples):
    """Pairs of texts; the prediction is their cosine, mapped to the range of the scores. Each window of a long text forms a pair,
    with the last window of a text that has fewer. Replicas of TensorFlow learn from whole pairs in rows of one text."""

    name, metrics, options = "similarity", (*REGRESSION_METRICS, "average_precision"), _SHARED

    @property
    def packed(self):
        return not is_split(self.task.encoder)

    @classmethod
    def objective_for(cls, examples):
        return objective_for([example.score for example in examples])

    def encode(self, examples):
        windows = self.task.windows(list(itertools.chain.from_iterable((example.first, example.second) for example in examples)))
        objective = self.task.training_objective
        scores = [objective.target(example.score, example_name(example, i)) for i, example in enumerate(examples)]
        beyond = next((i for i, score in enumerate(scores) if score is not None and not -1 <= score <= 1), None)
        refused = None if beyond is None else f"{example_name(examples[beyond], beyond)} has {examples[beyond].score!r}"
        bounds = np.searchsorted(windows.examples, np.arange(2 * len(examples) + 1)).tolist()
        groups, owners = [], []
        for pair, (first, second, end) in enumerate(zip(bounds[:-2:2], bounds[1:-1:2], bounds[2::2], strict=True)):
            count = max(second - first, end - second) if objective.all_windows else 1
            groups += [(min(first + i, second - 1), min(second + i, end - 1)) for i in range(count)]
            owners += [pair] * count
        targets = None if None in scores else np.array(scores, "float32")[owners]
        return EncodedGroups(windows, targets, np.array(groups), refused=refused)

    def batches(self, encoded, batch_size, seed, **kwargs):
        if encoded.targets is None:
            raise ValueError("every pair must have a score to learn cosines; at least one has none.")
        if encoded.refused is not None:
            low, high = self.task.score_range
            raise ValueError(
                f"a score must be a number from {2 * low - high:g} to {high:g}, where the score_range has cosines 0 and 1 for "
                f"{low:g} and {high:g}; {encoded.refused}."
            )
        if self.packed:
            return packed_batches(self.task, encoded, lambda pairs: encoded.targets[pairs], batch_size, seed, **kwargs)
        rows, scores = encoded.groups.ravel(), np.repeat(encoded.targets, 2)
        return self.task.grouped_batches(encoded, rows, scores, 2, batch_size, seed, **kwargs)

    def answers(self, examples, batch_size, progress):
        texts = list(itertools.chain.from_iterable((example.first, example.second) for example in examples))
        vectors = self.task.compared(texts, batch_size, progress)
        low, high = self.task.score_range
        return (low + np.sum(vectors[::2] * vectors[1::2], axis=1) * (high - low)).tolist()

    def scores(self, examples, answers):
        from keras_bert_rebuild.tasks.metrics import average_precision, regression_scores

        right = [example.score for example in examples]
        scores = regression_scores(right, list(answers))
        if set(right) == {0.0, 1.0}:  # binary scores: pairs that match or do not
            scores["average_precision"] = average_precision(right, answers)
        return scores

    def row(self, example, answer):
        return {"first": example.first, "second": example.second, "score": round(float(answer), 6)}


class Groups(VectorExamples):
    """Queries with a positive and negatives; the prediction is the nearest texts to the query among those of all examples."""

    name, options = "retrieval", (*_SHARED, "chunk", *_OF_GROUPS)

    @classmethod
    def objective_for(cls, examples):
        return "in_batch_negatives"

    def encode(self, examples):
        negatives = max(len(example.negatives) for example in examples)
        objective = self.task.training_objective
        if objective.needs_teacher:
            for i, example in enumerate(examples):
                if example.scores is None or not example.negatives:
                    actual = f"{len(example.negatives)} negatives and {'no' if example.scores is None else 'their'} scores"
                    wanted = "at least one negative, and scores of the positive and every negative"
                    raise ValueError(f"expected {wanted}; {example_name(example, i)} has {actual}.")
        query, document = map(self.task.prompt_text, ("query", "document"))
        if (query or document) and not self.task.include_prompt:
            raise ValueError(f"include_prompt must be true to train with prompts; got false, and {query!r} and {document!r}.")
        missing = (None,) * negatives
        prompted = [
            ((query, example.query), *((document, text) for text in (example.positive, *example.negatives))) for example in examples
        ]
        texts, groups = numbered([(*group, *missing)[: negatives + 2] for group in prompted])
        scores = None
        if objective.needs_teacher:
            scores = np.zeros(groups.shape, "float32")
            for row, example in zip(scores, examples, strict=True):
                row[1 : 1 + len(example.scores)] = example.scores
        return EncodedGroups.of(self.task, texts, groups, scores)

    def batches(self, encoded, batch_size, seed, **kwargs):
        guide = self.task.training.guide
        of_guide = None if guide is None else guide_vectors(guide, encoded.texts)

        def targets(examples):
            # Equal texts have equal ids, numbered within a batch, so that float32 represents them exactly.
            numbers = encoded.groups[examples]
            same = np.where(numbers >= 0, encoded.same[numbers], -1)
            local = np.searchsorted(np.unique(same[same >= 0]), same)
            teacher = np.zeros(same.shape, "float32") if encoded.scores is None else encoded.scores[examples]
            columns = [np.where(same >= 0, local, -1)[..., None], teacher[..., None]]
            assert len(columns) == GUIDE
            if of_guide is not None:
                columns.append(np.where((same >= 0)[..., None], of_guide[same], 0.0))
            return np.concatenate(columns, axis=-1).astype("float32")

        return packed_batches(self.task, encoded, targets, batch_size, seed, **kwargs)

    def answers(self, examples, batch_size, progress):
        def scorer(queries, corpus):
            asked = self.task.compared(queries, batch_size, prompt="query")
            documents = self.task.compared(corpus, batch_size, progress, prompt="document")
            for first in range(0, len(queries), BLOCK):
                yield asked[first : first + BLOCK] @ documents.T

        return retrieved(examples, scorer)

    def scores(self, examples, answers):
        return retrieval_scores(examples, answers)

    def row(self, example, answer):
        return retrieval_row(example, answer)


class Neighbours(dict[str, float]):
    """The nearest texts, `{index: score}`, and `measures` of the ranking of all texts: none without another text of the label."""

    measures: dict[str, float] | None = None


class Labelled(VectorExamples):
    """Texts with labels; the prediction is the nearest other texts, by index, of which those with the same label are relevant."""

    name, options = "labelled_similarity", (*_SHARED, "chunk", "learned_temperature")
    metrics = ("ndcg@10", "mrr@10", "recall@10", "map")

    @classmethod
    def objective_for(cls, examples):
        return "triplet"

    def encode(self, examples):
        texts, groups = numbered([(("", example.text),) for example in examples])
        labels = [example.label for example in examples]
        return EncodedGroups.of(self.task, texts, groups, None if None in labels else np.unique(labels, return_inverse=True)[1])

    def batches(self, encoded, batch_size, seed, **kwargs):
        if encoded.scores is None:
            raise ValueError("every text must have a label for training; at least one has none.")
        return packed_batches(self.task, encoded, lambda examples: encoded.scores[examples, None], batch_size, seed, **kwargs)

    def answers(self, examples, batch_size, progress):
        vectors = self.task.compared([example.text for example in examples], batch_size, progress)
        names, answers = [str(i) for i in range(len(examples))], []
        labels = [example.label for example in examples]
        same = np.unique(labels, return_inverse=True)[1] if None not in labels else None
        by_name = np.array(sorted(range(len(names)), key=names.__getitem__, reverse=True))  # the order of ties, as in `ranked`
        for first in range(0, len(vectors), BLOCK):
            scores = vectors[first : first + BLOCK] @ vectors.T
            np.fill_diagonal(scores[:, first:], -np.inf)  # a text is not its own neighbour
            for number, best in enumerate(best_of(scores, names), first):
                answers.append(Neighbours((name, score) for name, score in best.items() if score > -np.inf))
                if same is not None:
                    order = by_name[np.argsort(-scores[number - first, by_name].astype("float32"), kind="stable")]
                    relevant = (same[order[order != number]] == same[number]).astype("int64")
                    if relevant.any():
                        answers[-1].measures = scores_of_grades(relevant, np.ones(relevant.sum(), "int64"), self.metrics)
        return answers

    def scores(self, examples, answers):
        measured = [answer.measures for answer in answers if answer.measures is not None]
        if not measured:
            raise ValueError("expected at least two texts with the same label; there are none.")
        return {name: float(np.mean([of_text[name] for of_text in measured])) for name in self.metrics}

    def row(self, example, answer):
        nearest = list(answer.items())[:10]
        return {"text": example.text, "nearest": [int(name) for name, _ in nearest], "scores": [round(s, 6) for _, s in nearest]}


# The classes by kind of examples, as for `read_examples`.
VECTOR_EXAMPLES: dict[str, type[VectorExamples]] = {"similarity": Pairs, "retrieval": Groups, "classification": Labelled}


def check_objective(name: str, examples: str) -> None:
    """Refuse an objective that does not suit these examples.

    Raises:
        ValueError: the error names the objectives that do.
    """
    if name not in OBJECTIVES or examples not in OBJECTIVES[name].examples:
        names = " or ".join(other for other, objective in OBJECTIVES.items() if examples in objective.examples)
        raise ValueError(f"objective must be {names} for {VECTOR_EXAMPLES[examples].name}; got {name!r}.")
