"""The base classes of the embedders: prompts, poolings, the description for an index, and the training on queries and texts."""

import abc
import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import keras
import numpy as np

from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.data.labelled.length_buckets import BucketedBatches
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.embedding_model import POOLINGS
from keras_bert_rebuild.tasks.metrics.ranking import RETRIEVAL_METRICS, retrieval_row, retrieval_scores, retrieved
from keras_bert_rebuild.tasks.objectives import MOST_NEGATIVES, OBJECTIVES, objectives_for
from keras_bert_rebuild.tasks.sentence_modules import modules_of, shown
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_rows import Encoded, Windows, example_list, example_name
from keras_bert_rebuild.training.retrieval_losses import GroupedLoss

# The similarity of vectors: their cosine or their product.
MEASURES = ("cosine", "dot")

# Every embedder has prompts for queries and documents, which are empty by default.
ALWAYS = ("query", "document")

# A name, in contrast to a prompt such as "query: ".
_NAME = re.compile(r"[\w.-]+")

# What a text is compared by: its sparse vector, or the vectors of its tokens.
Vector = TypeVar("Vector")


def prompt_text(prompts: Mapping[str, str], prompt: str | None) -> str:
    """The prompt with a name, empty for "query" and "document" without one; a text that is not one word is the prompt itself.

    Raises:
        ValueError: no prompt has the name; the error lists the known ones.
    """
    if prompt is None or prompt in prompts:
        return "" if prompt is None else prompts[prompt]
    if prompt in ALWAYS or not _NAME.fullmatch(prompt):
        return "" if prompt in ALWAYS else prompt
    names = tuple(dict.fromkeys((*ALWAYS, *prompts)))
    near = difflib.get_close_matches(prompt, names, n=1)
    hint = f"; did you mean {near[0]}" if near else ""
    raise ValueError(f"prompt must be one of {', '.join(names)}, or a text of more than a word; got {prompt!r:.80}{hint}.")


def checked_poolings(poolings: Any) -> tuple[str, ...]:
    """Names of poolings as a tuple, from a list or a single string; a ValueError if one is unknown or repeated, or for none."""
    names: Sequence[str] = (poolings,) if isinstance(poolings, str) else tuple(poolings)
    if not names or not set(names) <= set(POOLINGS) or len(set(names)) < len(names):
        raise ValueError(f"poolings must be some of {', '.join(POOLINGS)}, each once; got {', '.join(map(str, names)) or 'none'}.")
    return tuple(names)


def checked_prompts(prompts: Any, default: Any) -> dict[str, str]:
    """Prompts by name, checked; a ValueError if the default prompt is not among them."""
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, Mapping) or not all(isinstance(part, str) for item in prompts.items() for part in item):
        raise ValueError(f"prompts must be texts by name; got {prompts!r:.80}.")
    if default is not None and default not in prompts and default not in ALWAYS:
        names = ", ".join(prompts) or "none"
        raise ValueError(f"default_prompt must be the name of a prompt; got {default!r:.80}, and the prompts are {names}.")
    return dict(prompts)


def weights_digest(model: keras.Model) -> str:
    """The sha256 of a model's weights with their paths and shapes, in the order of paths, as hexadecimal digits."""
    digest = hashlib.sha256()
    for variable in sorted(model.weights, key=lambda variable: variable.path):
        if "seed_generator" not in variable.path:  # the state of dropout does not affect vectors
            digest.update(f"{variable.path} {tuple(variable.shape)}\n".encode())
            digest.update(to_numpy(variable).astype("float32").tobytes())
    return digest.hexdigest()


class Embedder(Task):
    """A task that computes the vectors of texts, for a search. Abstract."""

    vectors: str
    """What a text has: a "dense" vector, a "sparse" vector, or a vector for each of its "tokens"."""

    encoder: keras.Model
    """The model that is saved; the vectors are computed from its output."""

    modules: Sequence[keras.layers.Layer] | None = None
    """The layers after the encoder and the pooling; None if there are never any."""

    prompts: dict[str, str]
    default_prompt: str | None

    without_effect: tuple[str, ...] = ("objective", "scale")
    """The settings that do not affect vectors."""

    unsaved: tuple[str, ...] = ("modules",)  # their weights are in separate files

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def described_model(self) -> keras.Model:
        """The model whose weights identify the embedder."""
        return self.model

    @classmethod
    def check_encoder(cls, model: keras.Model) -> None:
        """Raise a ValueError for a model without a config or with heads."""
        if getattr(model, "config", None) is None or not set(heads_of(model)) <= {"pooler"}:
            raise ValueError(f"{cls.__name__} must have a BertModel without heads; from_encoder makes one.")

    def prompt_text(self, prompt: str | None) -> str:
        """The prompt that is put before every text.

        Args:
            prompt: the name of a prompt in the settings, "query" or "document"; a text of more than a word, such as "query: ", is
                the prompt itself. None for the default prompt, if there is one.

        Raises:
            ValueError: no prompt has the name; the error lists the known ones.
        """
        return prompt_text(self.prompts, self.default_prompt if prompt is None else prompt)

    def description(self) -> dict[str, Any]:
        """Plain values that identify the model and the settings that affect its vectors, for an index.

        They differ if the vectors of two embedders differ, so that an index is never searched with the vectors of another model.
        """
        tokens = repr((type(self.tokenizer).__name__, sorted(self.tokenizer.tokens.items())))
        settings = {name: value for name, value in self.settings().items() if name not in self.without_effect}
        return {
            "kind": self.kind,
            "vectors": self.vectors,
            "width": self.width,
            "weights": weights_digest(self.described_model),
            "tokenizer": hashlib.sha256(tokens.encode()).hexdigest(),
            **settings,
            **({} if self.modules is None else {"modules": [shown(module) for module in modules_of(self.modules)]}),
        }

    def model_to_save(self) -> keras.Model:
        return self.encoder


class GroupTask(Embedder, Generic[Vector]):
    """A task on `TextGroup`: a query, a positive and negatives. Abstract.

    In training every text is a row, truncated to its maximum length, and a group has 2 + `negatives` rows. Further negatives of an
    example are ignored.
    """

    examples = "retrieval"
    metrics = RETRIEVAL_METRICS
    without_effect = (*Embedder.without_effect, "negatives")
    similarity: str
    """The name of the similarity, as for `ScoreLoss`."""

    objective: str
    negatives: int
    scale: float

    def check_objective(self, objective: str, negatives: int, scale: float) -> None:
        """Set the training settings; a ValueError for invalid ones."""
        names = objectives_for(self.examples)
        if objective not in names:
            raise ValueError(f"objective must be one of {', '.join(names)}; got {objective!r}.")
        if int(negatives) < 0 or not scale > 0 or (OBJECTIVES[objective].needs_teacher and not negatives):
            raise ValueError(
                f"negatives must be at least 0, or 1 to learn the scores of a teacher, and scale above 0; got {negatives} and "
                f"{scale} for {objective}."
            )
        self.objective, self.negatives, self.scale = objective, int(negatives), float(scale)

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        most = max(len(example.negatives) for example in examples)
        has_scores = most and all(example.scores is not None for example in examples)
        usual = "margin_mse" if has_scores else "in_batch_negatives"
        wanted = options.get("negatives")
        return {
            "objective": options["objective"] or usual,
            "negatives": min(most, MOST_NEGATIVES if wanted is None else wanted),
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
        results = []
        for number, vectors in enumerate(self.documents(documents), 1):
            results.append(vectors)
            if progress is not None:
                progress(number, len(documents))
        return results

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
                raise ValueError(f"examples must be TextGroup; {example_name(example, i)} is a {type(example).__name__}.")
            if OBJECTIVES[self.objective].needs_teacher and example.scores is None:
                raise ValueError(f"{self.objective} learns the scores of a teacher; {example_name(example, i)} has none.")
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
