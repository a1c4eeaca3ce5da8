"""The base class of tasks that are trained on queries and their texts, and whose vectors are compared by a score."""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.tasks.embedder import Embedder
from keras_bert_rebuild.tasks.objectives import MOST_NEGATIVES, OBJECTIVES, objectives_for
from keras_bert_rebuild.tasks.retrieval_evaluation import METRICS, retrieval_row, retrieval_scores, retrieved
from keras_bert_rebuild.tasks.task import Progress
from keras_bert_rebuild.tasks.text_rows import Encoded, Windows, example_list, place_of
from keras_bert_rebuild.training.retrieval_losses import GroupedLoss

# What a text is compared by: its sparse vector, or the vectors of its tokens.
Vector = TypeVar("Vector")


class GroupTask(Embedder, Generic[Vector]):
    """A task on `TextGroup`: a query, a positive and negatives. Abstract.

    In training every text is a row, truncated to its maximum length, and a group has 2 + `negatives` rows. Further negatives of an
    example are ignored.
    """

    examples = "retrieval"
    metrics = METRICS
    without_effect = (*Embedder.without_effect, "negatives")
    similarity: str
    """The name of the similarity, as for `ScoreLoss`."""

    objective: str
    negatives: int
    scale: float

    def check_objective(self, objective: str, negatives: int, scale: float) -> None:
        """Set the training settings; a ValueError for invalid ones."""
        known = objectives_for(self.examples)
        if objective not in known:
            raise ValueError(f"objective must be one of {', '.join(known)}; got {objective!r}.")
        if int(negatives) < 0 or not scale > 0 or (OBJECTIVES[objective].needs_teacher and not negatives):
            raise ValueError(
                f"negatives must be at least 0, or 1 to learn the scores of a teacher, and scale above 0; got {negatives} and "
                f"{scale} for {objective}."
            )
        self.objective, self.negatives, self.scale = objective, int(negatives), float(scale)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        given = max(len(example.negatives) for example in examples)
        has_scores = given and all(example.scores is not None for example in examples)
        usual = "margin_mse" if has_scores else "in_batch_negatives"
        wanted = options.get("negatives")
        return {
            "objective": options["objective"] or usual,
            "negatives": min(given, MOST_NEGATIVES if wanted is None else wanted),
        }

    @abc.abstractmethod
    def stream_of(self, texts: Iterable[str], side: str, batch_tokens: int | None = None) -> Iterator[Vector]:
        """Yield what a text is compared by, in order and in constant memory.

        Args:
            texts: an iterable of strings; it may be endless.
            side: "query" or "document".
            batch_tokens: number of tokens per batch, including padding; None for a fast number.
        """

    def queries(self, texts: Iterable[str]) -> Iterator[Vector]:
        """Yield the vectors of every query, in order and in constant memory; the texts may be endless."""
        return self.stream_of(texts, "query")

    def documents(self, texts: Iterable[str]) -> Iterator[Vector]:
        """Yield the vectors of every document: as `queries`, with the prompt or prefix of documents."""
        return self.stream_of(texts, "document")

    def document_encoder(self, batch_tokens: int | None = None) -> Callable[[Iterable[str]], Iterator[Vector]]:
        """A function like `documents`, with this number of tokens per batch, including padding; None for a fast number."""
        return lambda texts: self.stream_of(texts, "document", batch_tokens)

    def counted_documents(self, documents: Sequence[str], progress: Progress) -> list[Vector]:
        """The vectors of all documents; `progress` is called after each."""
        found = []
        for number, vectors in enumerate(self.documents(documents), 1):
            found.append(vectors)
            if progress is not None:
                progress(number, len(documents))
        return found

    @abc.abstractmethod
    def training_windows(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[Windows, Windows]:
        """One row for each query and for each document, truncated to its maximum length."""

    @abc.abstractmethod
    def ranked_scores(self, queries: Sequence[str], documents: Sequence[str], progress: Progress) -> Iterator[Any]:
        """Yield for every query the scores of all documents, `(documents,)`."""

    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The rows of all groups, each with its query, positive and negatives.

        The targets are an array `(rows, 2)` for each group: the id of every text, which equal texts share, and the score of a
        teacher.
        """
        examples = example_list(examples)
        for i, example in enumerate(examples):
            if not isinstance(example, TextGroup):
                raise ValueError(f"examples must be TextGroup; {place_of(example, i)} is a {type(example).__name__}.")
            if OBJECTIVES[self.objective].needs_teacher and example.scores is None:
                raise ValueError(f"{self.objective} learns the scores of a teacher; {place_of(example, i)} has none.")
        texts = [[example.positive, *example.negatives[: self.negatives]] for example in examples]
        queries, documents = self.training_windows(
            [example.query for example in examples], [text for of_group in texts for text in of_group]
        )
        numbers: dict[str, int] = {}
        targets, rows, first = [], [], 0
        for i, (example, of_group) in enumerate(zip(examples, texts, strict=True)):
            named = [numbers.setdefault(text, len(numbers)) for text in (example.query, *of_group)]
            scores = (0.0, *(example.scores or [0.0] * (1 + self.negatives)))[: len(named)]
            targets.append(np.array([named, scores], "float32").T)
            rows += [(queries, i), *((documents, first + k) for k in range(len(of_group)))]
            first += len(of_group)
        parts = ("ids", "segments", "sides", "best", "offsets", "word_ids")
        columns = {name: [getattr(windows, name)[row] for windows, row in rows] for name in parts}
        owners = np.repeat(np.arange(len(examples)), [len(target) for target in targets])
        return Encoded(Windows(examples=owners, **columns), targets)

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> BucketedBatches:
        """Batches of groups for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts groups."""
        size, rows, labels, first = 2 + self.negatives, [], [], 0
        for target in encoded.targets:
            missing = size - len(target)
            # A missing text is replaced by the positive, which losses ignore.
            rows += [*range(first, first + len(target)), *[first + 1] * missing]
            labels += [target, np.full((missing, 2), (-1.0, 0.0), "float32")]
            first += len(target)
        return self.grouped_batches(encoded, rows, np.concatenate(labels), size, batch_size, seed, **kwargs)

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective, over the scores of the queries with the texts of the batch."""
        objective = OBJECTIVES[self.objective](scale=self.scale, similarity=self.similarity)
        return GroupedLoss(objective.loss(), 2 + self.negatives)

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """For every group, the best 100 among all texts of the groups with their scores, `{text: score}`, best first."""
        scorer = lambda queries, corpus: (scores[None] for scores in self.ranked_scores(queries, corpus, progress))  # noqa: E731
        return retrieved(example_list(examples), scorer)

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """nDCG@10, MRR@10, recall@10 and MAP@100 of the positives among all texts."""
        return retrieval_scores(examples, answers)

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        return retrieval_row(example, answer)
