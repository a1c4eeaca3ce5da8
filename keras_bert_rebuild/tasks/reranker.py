"""Reranking with a cross-encoder: how relevant a text is to a query, from a model that reads both together."""

import itertools
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.data.labelled.group_batches import CandidateBatches, Candidates
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.data.random_numbers import keys, permuted
from keras_bert_rebuild.pretrained.sentence_files import reranker_files
from keras_bert_rebuild.tasks.embedding_model import sharing_layers
from keras_bert_rebuild.tasks.metrics.ranking import reranking_scores
from keras_bert_rebuild.tasks.objectives import EVALUATION_NEGATIVES, RERANKING_OBJECTIVES, check_labels, reranking_settings
from keras_bert_rebuild.tasks.retrieval_rows import PairRows
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_problems import SCORE
from keras_bert_rebuild.tasks.text_rows import Encoded, buckets_for, example_list

# A text of a query: its index, the text, and its score.
Ranked = namedtuple("Ranked", ["index", "text", "score"])

# Activations that map a logit to a score, by name.
ACTIVATIONS = {"sigmoid": lambda logits: 1 / (1 + np.exp(-logits)), "linear": lambda logits: logits}


class Reranker(Task):
    """Scores texts for a query: both are in one row, so that their tokens attend to each other.

    A text that is too long for `max_len` is split into windows, each with the whole query; its score is the maximum over its
    windows. Training uses the first window.

    In training, a query has one positive and `negatives` negatives. If more negatives are given, another sample is used in every
    epoch; if fewer, the rest is sampled in every epoch from the positives of other queries, except for texts given for an equal
    query. Samples depend only on the seed. Texts with labels are used as given; those of equal queries form a list.

    Args:
        model: a `BertModel` with the head "classification" and one label.
        tokenizer: as for `task_tokenizer`.
        activation: "sigmoid" for scores between 0 and 1, "linear" for logits.
        objective: "binary", cross entropy of relevant or not; "graded", the same with labels scaled by `score_range`; "pairwise",
            RankNet; "listwise", cross entropy over the texts of a query; "lambda", pairs weighted by nDCG; or for the scores of a
            teacher "margin_mse", "mse" or "list_net".
        negatives: number of negatives per query in training; for texts with labels, the length of a list minus one.
        positive_weight: weight of relevant texts in "binary" and "graded".
        score_range: the lowest and the highest label, for "graded".
        truncate: cut long pairs to `max_len`, the longer text first, as sentence-transformers does, instead of windows.
        max_len, stride: see `Task`.

    Reference: Nogueira and Cho, 2019 (https://arxiv.org/abs/1901.04085); the maximum over windows as in Dai and Callan, 2019,
    section 3 (https://arxiv.org/abs/1905.09217).
    """

    kind, in_commands = "reranking", "rerank"
    heads = ("classification",)
    examples = "ranking"
    metrics = ("ndcg@10", "mrr@10", "map", "average_precision")
    options = ("objective", "negatives", "positive_weight")
    named_by_heads = False  # its folder may hold any classifier

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        activation: str = "sigmoid",
        objective: str = "binary",
        negatives: int = 4,
        positive_weight: float = 1.0,
        score_range: Sequence[float] = (0.0, 1.0),
        truncate: bool = False,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        if len(model.config.labels) != 1:
            raise ValueError(f"a Reranker must have one label, its score; the model has {len(model.config.labels)}.")
        for name, value, allowed in (("activation", activation, ACTIVATIONS), ("objective", objective, RERANKING_OBJECTIVES)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
        low, high = score_range
        if not low < high or not positive_weight > 0 or int(negatives) < 1:
            values = f"{tuple(score_range)}, {positive_weight} and {negatives}"
            raise ValueError(f"score_range must ascend, positive_weight be above 0 and negatives at least 1; got {values}.")
        self.activation, self.objective = activation, objective
        self.negatives, self.positive_weight = int(negatives), float(positive_weight)
        self.score_range, self.truncate = (float(low), float(high)), bool(truncate)

    @classmethod
    def from_encoder(
        cls, encoder: str | Path | keras.Model, tokenizer: Any = None, *, labels: Sequence[str] = (SCORE,), **settings: Any
    ) -> Self:
        """The reranker with a newly initialised head on an encoder: see `Task.from_encoder`; its one label needs no name."""
        return super().from_encoder(encoder, tokenizer, labels=labels, **settings)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        values = reranking_settings(examples, options["objective"], options["negatives"])
        weight = options["positive_weight"]
        return {**values, **({} if weight is None else {"positive_weight": weight})}

    def scores_of(self, pairs: Iterable[Sequence[str]], batch_size: int = 32, progress: Progress = None) -> npt.NDArray[np.float32]:
        """The score of each text for its query, `(pairs,)`.

        Args:
            pairs: a list of `(query, text)`.
            batch_size: rows per batch.
            progress: called with the number of finished rows and the total.

        Raises:
            ValueError: not a list, an empty list, or an item that is not a pair of strings.
        """
        pairs = example_list(pairs, "pairs")
        for number, pair in enumerate(pairs):
            if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise ValueError(f"every pair must be a query and a text, both strings; number {number} is {pair!r:.80}.")
        windows = self.windows([query for query, _ in pairs], [text for _, text in pairs], side=1, truncate=self.truncate)
        logits = np.array(self.predict_windows(windows, batch_size, progress), "float32")[:, 0]
        best = np.maximum.reduceat(logits, np.flatnonzero(np.diff(windows.examples, prepend=-1)))
        return ACTIVATIONS[self.activation](best).astype("float32")

    def rank(self, query: str, texts: Sequence[str], top_k: int | None = None, batch_size: int = 32) -> list[Ranked]:
        """Texts ranked by their score for a query, best first; ties in the order of the list.

        Args:
            query: the query.
            texts: a list of texts.
            top_k: number of texts to return; None for all.
            batch_size: rows per batch.

        Raises:
            ValueError: not a list, an empty list, or a `top_k` below 1.
        """
        texts = example_list(texts, "texts")
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all texts; got {top_k}.")
        scores = self.scores_of([(query, text) for text in texts], batch_size)
        return [Ranked(int(i), texts[i], float(scores[i])) for i in np.argsort(-scores, kind="stable")[:top_k]]

    def encode(self, examples: Iterable[Any]) -> Encoded:
        """The rows of all pairs of a query and a text; the targets are a list of `Candidates` with the indices of pairs."""
        examples = example_list(examples)
        check_labels(examples, self._objective.of_scores)
        pairs = [(example.query, text) for example in examples for text in _texts(example)]
        windows = self.windows([query for query, _ in pairs], [text for _, text in pairs], side=1, truncate=self.truncate)
        labels = [label for example in examples for label in self._labels(example)]
        if None in labels:
            return Encoded(windows)
        number: dict[str, int] = {}  # index of a pair with the text
        for i, (_, text) in enumerate(pairs):
            number.setdefault(text, i)
        of_query: dict[str, list[int]] = {}
        for i, (query, _) in enumerate(pairs):
            of_query.setdefault(query, []).append(i)
        as_texts = lambda group: [number[pairs[i][1]] for i in group]  # noqa: E731
        draws = isinstance(examples[0], TextGroup) and not self._objective.of_scores
        lists = [
            Candidates(
                group[0],
                as_texts(group),
                [labels[i] for i in group],
                as_texts(of_query[pairs[group[0]][0]]) if draws else None,
            )
            for group in self._lists(examples, labels, of_query)
        ]
        return Encoded(windows, lists)

    def batches(self, encoded: Encoded, batch_size: int = 32, seed: int | None = None, **kwargs: Any) -> CandidateBatches:
        """Batches of queries with their texts for `fit` and `evaluate`: see `Task.batches`; `batch_size` counts queries, or texts
        with labels if the objective is pointwise."""
        if encoded.targets is None:
            raise ValueError("every text must have a label for training, or be a positive or negative; at least one is neither.")
        pairs = PairRows(encoded.windows, self.max_len, self.tokenizer.truncation_side)
        pool = {one.texts[0] for one in encoded.targets if one.excluded is not None}
        alone = not self._objective.of_lists and not pool
        names = [tensor.name for tensor in self.model.inputs]

        def rows(queries, texts):
            ids, segments = pairs.joined(queries, texts)
            return model_inputs(names, ids, segments, self.tokenizer.pad_id)[0]

        _, padding = model_inputs(names, [], [], self.tokenizer.pad_id)
        lengths = self.row_lengths or buckets_for([len(row) for row in encoded.windows.ids], self.max_len)
        return CandidateBatches(
            encoded.targets,
            1 if alone else 1 + self.negatives,
            sorted(pool),
            pairs.lengths,
            rows,
            padding,
            batch_size,
            [*lengths, max(lengths[-1], pairs.longest)],
            seed,
            **kwargs,
        )

    def loss(self) -> keras.losses.Loss:
        """The loss of the objective, on the logits of lists."""
        objective = self._objective
        weight = {"positive_weight": self.positive_weight} if objective.weighted else {}
        return objective.loss(list_size=1 + self.negatives if objective.of_lists else 1, **weight)

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        """A score for each `RankedText`; for each `TextGroup` a dictionary from texts to scores.

        If no group has negatives, each is also compared with up to 9 texts of other groups that are not positives of an equal
        query; these are always the same.
        """
        examples = example_list(examples)
        check_labels(examples, False)
        texts = _with_others(examples) if isinstance(examples[0], TextGroup) else [[example.text] for example in examples]
        pairs = [(example.query, text) for example, of_query in zip(examples, texts, strict=True) for text in of_query]
        scores = iter(self.scores_of(pairs, batch_size, progress).tolist())
        answers = [{text: next(scores) for text in of_query} for of_query in texts]
        return answers if isinstance(examples[0], TextGroup) else [next(iter(answer.values())) for answer in answers]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """nDCG@10, MRR@10 and MAP among the texts of a query; for texts with labels also average precision over all pairs."""
        return reranking_scores(examples, answers, self.metrics[:3])

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        if not isinstance(answer, Mapping):
            return {"query": example.query, "text": example.text, "score": round(answer, 6)}
        texts = sorted(_texts(example), key=lambda text: -answer[text])
        return {"query": example.query, "texts": texts, "scores": [round(answer[text], 6) for text in texts]}

    def served(self, prompt: str | None = None) -> tuple[keras.Model, dict[str, Any]]:
        """The model from pairs to scores, including the activation; it has no prompts."""
        if prompt is not None:
            raise ValueError(f"prompt must be None for {self.kind}, which has no vectors of texts; got {prompt!r:.80}.")
        score = keras.layers.Activation(self.activation, dtype="float32", name="Score")(self.model.outputs[0])
        return sharing_layers(self.model, score), {"kind": self.kind, "activation": self.activation}

    def further_files(self) -> dict[str, bytes]:
        """The files with which sentence-transformers reads the Hugging Face folder."""
        return reranker_files(self.activation, self.max_len)

    @property
    def _objective(self):
        return RERANKING_OBJECTIVES[self.objective]

    def _labels(self, example):
        """The labels of the texts of an example, in the form that the loss expects."""
        objective = self._objective
        if not isinstance(example, TextGroup):
            return [None if example.label is None else objective.label(example.label, self.score_range)]
        return list(example.scores) if objective.of_scores else [1.0] + [0.0] * len(example.negatives)

    def _lists(self, examples, labels, of_query):
        """The indices of the pairs of every list; the first is the positive, or has the highest label."""
        if isinstance(examples[0], TextGroup):
            ends = np.cumsum([1 + len(example.negatives) for example in examples]).tolist()
            return [list(range(begin, end)) for begin, end in itertools.pairwise([0, *ends])]
        if not self._objective.of_lists:
            return [[i] for i in range(len(labels))]
        return [sorted(group, key=lambda i: -labels[i]) for group in of_query.values()]


def _texts(example):
    """The texts of an example, the positive first."""
    return [example.positive, *example.negatives] if isinstance(example, TextGroup) else [example.text]


def _with_others(groups):
    """The texts of every group; groups without negatives get texts of others."""
    if any(group.negatives for group in groups):
        return [list(dict.fromkeys(_texts(group))) for group in groups]
    of_query: dict[str, list[str]] = {}
    for group in groups:
        of_query.setdefault(group.query, []).append(group.positive)
    pool = list(dict.fromkeys(group.positive for group in groups))
    values = []
    for key, group in zip(keys(0, 0, np.arange(len(groups))), groups, strict=True):
        own = of_query[group.query]
        drawn = permuted(key, len(pool), np.arange(min(len(pool), EVALUATION_NEGATIVES + len(own))))
        candidates = [pool[i] for i in drawn if pool[i] not in own]
        values.append([group.positive, *candidates[:EVALUATION_NEGATIVES]])
    return values
