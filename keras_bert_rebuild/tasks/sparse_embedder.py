"""Sparse vectors of texts: weights of words of the vocabulary, from a masked language model."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.vocabulary_pooling import ACTIVATIONS, POOLINGS, VocabularyPooling
from keras_bert_rebuild.pretrained.sentence_files import sparse_files
from keras_bert_rebuild.tasks.embedder import ALWAYS, GroupTask, checked_prompts
from keras_bert_rebuild.tasks.embedding_stream import texts_of_stream
from keras_bert_rebuild.tasks.row_predictions import row_stream
from keras_bert_rebuild.tasks.task import Progress
from keras_bert_rebuild.tasks.text_rows import Windows, example_list
from keras_bert_rebuild.training.retrieval_losses import FlopsRegularizer

# The ids of words, ascending, and their weights, above 0.
SparseVector: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]

# A sparse vector as a single array, while it is processed.
_ENTRIES = np.dtype([("id", "int32"), ("weight", "float32")])


class SparseEmbedder(GroupTask[SparseVector]):
    """SPLADE: computes sparse vectors of texts, the weights of words, which are compared like counts of words.

        weight of a word = max over tokens, or sum, of log(1 + max(0, logit of the MLM head))        score = query · document

    The words need not occur in the text. The vector of a text that is too long for `max_len` is the maximum, or sum, over its
    windows.

    Args:
        model: a `BertModel` with the head "mlm".
        tokenizer: as for `task_tokenizer`.
        pooling: "max" or "sum" over the tokens of a text.
        activation: "log1p_relu", log(1 + max(0, logit)), or "log1p_log1p_relu", log(1 + that).
        prompts: prompts, which are put before texts, by name; "query" and "document" are for `queries` and `documents`, and empty
            by default.
        default_prompt: the name of the prompt for other texts; None for no prompt.
        max_active: maximum number of words in a vector; those with the largest weights are kept. None for all.
        truncate: truncate long texts to `max_len`, as sentence-transformers does, instead of splitting them into windows.
        objective: "in_batch_negatives"; or, with the scores of a teacher, "margin_mse" or "distillation".
        negatives: number of negatives per query in training.
        scale: factor of the scores in training.
        flops: weights of the `FlopsRegularizer` for queries and for documents; larger weights give fewer words.
        query_l1: weight of the L1 norm of queries in the `FlopsRegularizer`.
        flops_steps: training steps until these weights are reached.
        max_len, stride: see `Task`.

    Reference: Formal et al., 2021 (https://arxiv.org/abs/2107.05720); Formal et al., 2022 (https://arxiv.org/abs/2205.04733).
    """

    kind, in_commands = "sparse_embedding", "sparse_retrieval"
    heads = ("mlm",)
    vectors = "sparse"
    similarity = "dot"
    without_effect = (*GroupTask.without_effect, "flops", "query_l1", "flops_steps")
    options = ("objective", "negatives", "flops", "epochs", "steps", "batch_size")
    named_by_heads = False  # most masked language models are not sparse embedders

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        pooling: str = "max",
        activation: str = "log1p_relu",
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        max_active: int | None = None,
        truncate: bool = False,
        objective: str = "in_batch_negatives",
        negatives: int = 0,
        scale: float = 1.0,
        flops: Sequence[float] = (5e-5, 3e-5),
        query_l1: float = 0.0,
        flops_steps: int = 1,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        for name, value, allowed in (("pooling", pooling, POOLINGS), ("activation", activation, ACTIVATIONS)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
        if max_active is not None and max_active < 1:
            raise ValueError(f"max_active must be at least 1 word, or None for all; got {max_active}.")
        if len(flops) != 2 or min(*flops, query_l1) < 0 or flops_steps < 1:
            values = f"{tuple(flops)}, {query_l1} and {flops_steps}"
            raise ValueError(f"flops must be two weights and query_l1 one, at least 0, and flops_steps at least 1; got {values}.")
        self.check_objective(objective, negatives, scale)
        super().check_model(model)
        self.encoder = model
        self.pooling, self.activation, self.max_active, self.truncate = pooling, activation, max_active, bool(truncate)
        self.prompts, self.default_prompt = checked_prompts(prompts, default_prompt), default_prompt
        self.flops = float(flops[0]), float(flops[1])
        self.query_l1, self.flops_steps = float(query_l1), int(flops_steps)
        price = FlopsRegularizer(
            2 + self.negatives,
            queries=self.flops[0],
            documents=self.flops[1],
            query_l1=self.query_l1,
            steps=self.flops_steps,
            dtype="float32",
        )
        super().__init__(_pooled_model(model, pooling, activation, price), tokenizer, max_len=max_len, stride=stride)

    def check_model(self, model: keras.Model) -> None:
        """Does nothing: the head is checked before its last layer is replaced."""

    @classmethod
    def settings_for(cls, examples: Sequence[Any], options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        steps = options["steps"] or options["epochs"] * -(-len(examples) // options["batch_size"])
        weights = {} if options["flops"] is None else {"flops": tuple(options["flops"])}
        return {**super().settings_for(examples, options), **weights, "flops_steps": max(1, steps // 3)}

    @property
    def width(self) -> int:
        """The number of words in the vocabulary."""
        return self.model.outputs[0].shape[-1]

    def __call__(self, texts: Sequence[str], prompt: str | None = None) -> list[SparseVector]:
        """The vectors of texts: for each the ids of its words, ascending, and their weights.

        Args:
            texts: a list of texts.
            prompt: the name of a prompt; None for the default one.

        Raises:
            ValueError: not a list, or an empty list.
        """
        return list(self._stream(example_list(texts, "texts"), prompt))

    def to_scipy(self, texts: Iterable[str], prompt: str | None = None) -> Any:
        """The vectors of texts as a SciPy CSR matrix, `(texts, words)`.

        Args:
            texts, prompt: as in a call.

        Raises:
            ModuleNotFoundError: scipy is not installed.
        """
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

        vectors = self(list(texts), prompt)
        ends = np.cumsum([0, *(len(ids) for ids, _ in vectors)])
        ids, weights = (np.concatenate(parts) for parts in zip(*vectors, strict=True))
        return csr_matrix((weights, ids, ends), shape=(len(vectors), self.width))

    def tokens_of(self, vector: SparseVector, top_k: int | None = None) -> list[tuple[str, float]]:
        """The words of a vector and their weights, largest first.

        Args:
            vector: a vector from a call.
            top_k: number of words; None for all.
        """
        ids, weights = vector
        tokens = self.tokenizer.tokens
        return [(tokens.get(int(ids[i]), str(ids[i])), float(weights[i])) for i in np.argsort(-weights, kind="stable")[:top_k]]

    @property
    def described_model(self) -> keras.Model:
        return self.encoder  # the training model has a step counter among its weights

    def stream_of(self, texts: Iterable[str], side: str, batch_tokens: int | None = None) -> Iterator[SparseVector]:
        return self._stream(texts, side, batch_tokens)

    def training_windows(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[Windows, Windows]:
        prompted = lambda texts, prompt: [self.prompt_text(prompt) + text for text in texts]  # noqa: E731
        return self.windows(prompted(queries, "query"), truncate=True), self.windows(prompted(documents, "document"), truncate=True)

    def ranked_scores(self, queries: Sequence[str], documents: Sequence[str], progress: Progress) -> Iterator[Any]:
        # A dense row per query, and the words of all documents concatenated.
        entries = self.counted_documents(documents, progress)
        ids, weights = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        owners = np.repeat(np.arange(len(entries)), [len(of_text) for of_text, _ in entries])
        for query_ids, query_weights in self.queries(queries):
            dense = np.zeros(self.width, "float32")
            dense[query_ids] = query_weights
            yield np.bincount(owners, dense[ids] * weights, len(entries))

    def further_files(self) -> dict[str, bytes]:
        """The files with which sentence-transformers reads the Hugging Face folder."""
        names = ("pooling", "activation", "prompts", "default_prompt", "max_active")
        return sparse_files(self.width, self.max_len, **{name: getattr(self, name) for name in names})

    def served(self, prompt: str | None = None) -> tuple[keras.Model, dict[str, Any]]:
        """The model from ids to a weight for every word of the vocabulary, 0 for most."""
        model = _pooled_model(self.encoder, self.pooling, self.activation, lambda weights: weights)
        prompts = {**dict.fromkeys(ALWAYS, ""), **self.prompts}
        text = self.prompt_text(prompt)
        return model, {"kind": self.kind, "measure": "dot", "prompt": text, "prompts": prompts, "max_active": self.max_active}

    def _stream(self, texts, prompt, batch_tokens=None):
        counts: deque[int] = deque()  # for every text that was read ahead, its number of windows
        names = [tensor.name for tensor in self.model.inputs]

        def rows():
            for part in texts_of_stream(texts):
                windows = self.windows([self.prompt_text(prompt) + text for text in part], truncate=self.truncate)
                counts.extend(np.bincount(windows.examples, minlength=len(part)).tolist())
                yield from zip(windows.ids, windows.segments, strict=True)

        def inputs_of(batch):
            return model_inputs(names, *map(list, zip(*batch, strict=True)), self.tokenizer.pad_id)

        entries = row_stream(self.model, rows(), inputs_of, _entries, self.max_len, batch_tokens)
        for first in entries:
            windows = [first, *itertools.islice(entries, counts.popleft() - 1)]
            yield self._vector(windows)

    def _vector(self, windows):
        """The vector of a text from the vectors of its windows."""
        entries = np.concatenate(windows)
        ids, weights = entries["id"], entries["weight"]
        if len(windows) > 1:
            ids, numbers = np.unique(ids, return_inverse=True)
            combined = np.zeros(len(ids), "float32")
            (np.maximum if self.pooling == "max" else np.add).at(combined, numbers, weights)
            weights = combined
        if self.max_active is not None and len(ids) > self.max_active:
            strongest = np.sort(np.argsort(-weights, kind="stable")[: self.max_active])
            ids, weights = ids[strongest], weights[strongest]
        return np.ascontiguousarray(ids), np.ascontiguousarray(weights)


def _entries(weights, row):
    """The words with a weight above 0, as one array."""
    ids = np.flatnonzero(weights > 0)
    entries = np.empty(len(ids), _ENTRIES)
    entries["id"], entries["weight"] = ids, weights[ids]
    return entries


def _pooled_model(model, pooling, activation, regularizer):
    """The model with pooled logits of its MLM head as its output."""
    similarity = model.get_layer("MLM-Sim")
    x = VocabularyPooling(similarity, pooling, activation, name="Pool-Vocabulary")(similarity.input)
    inputs = [tensor for tensor in model.inputs if tensor.name != "Input-Masked"]  # the input of the last layer of the head
    pooled = BertModel(bare_if_one(inputs), regularizer(x))
    pooled.config, pooled.load_report = model.config, getattr(model, "load_report", None)
    return pooled
