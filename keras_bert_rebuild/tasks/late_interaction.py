"""Late interaction: a vector for every token, and a score that matches the tokens of a text with those of a query."""

import itertools
import string
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild import layers
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.data.max_sim import max_sim
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model, dtype_scope
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.sentence_files import late_interaction_files
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule
from keras_bert_rebuild.tasks.embedder import GroupTask
from keras_bert_rebuild.tasks.embedding_model import embedding_model
from keras_bert_rebuild.tasks.embedding_stream import texts_of_stream
from keras_bert_rebuild.tasks.retrieval_rows import MarkedRows
from keras_bert_rebuild.tasks.row_predictions import row_stream
from keras_bert_rebuild.tasks.sentence_modules import module_layers, modules_of, new_dense
from keras_bert_rebuild.tasks.task import Progress
from keras_bert_rebuild.tasks.text_rows import Windows, example_list

# The default width of a token's vector, as in ColBERT.
TOKEN_WIDTH = 128

# The input that marks which tokens are compared.
SCORED = "Input-Scored"


class LateInteractionEmbedder(GroupTask[npt.NDArray[np.float32]]):
    """ColBERT: computes a vector for every token, and scores a text by the best match of each token of the query.

        vectors = modules(last block)        score = Σ over tokens of the query of max over tokens of the document of their product

    Args:
        model: a `BertModel` without heads, which outputs the last block. Unless masks are attended to, it is replaced by a model
            with the same weights and an input for the padding mask.
        tokenizer: as for `task_tokenizer`.
        modules: modules that are applied to the vector of a token, see `module_layers`; `from_encoder` creates a dense layer
            without bias and scaling to length 1.
        query_len, document_len: maximum number of tokens in a query and in a document; longer ones are truncated.
        query_prefix, document_prefix: prefixes of queries and documents, see `MarkedRows`.
        query_expansion: pad queries to `query_len` with mask tokens, whose vectors are compared, too.
        attend_to_expansion: whether the other tokens attend to these masks.
        skiplist_words: tokens of documents whose vectors are left out; words that are not in the vocabulary have no effect.
        objective: "in_batch_negatives"; or, with the scores of a teacher, "margin_mse" or "distillation".
        negatives: number of negatives per query in training.
        scale: factor of the scores in training.
        max_len: limits both lengths; None for the maximum of the model.
        stride: see `Task`.

    Reference: Khattab and Zaharia, 2020, section 3 (https://arxiv.org/abs/2004.12832).
    """

    kind = "late_interaction"
    heads = ()
    vectors = "tokens"
    options = ("objective", "negatives")
    saved_first, unsaved = (), ("modules", "max_len")
    without_effect = (*GroupTask.without_effect, "stride")
    modules: Sequence[keras.layers.Layer]

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        modules: Sequence[Any] = (),
        query_len: int = 32,
        document_len: int = 180,
        query_prefix: str = "",
        document_prefix: str = "",
        query_expansion: bool = True,
        attend_to_expansion: bool = False,
        skiplist_words: Sequence[str] = tuple(string.punctuation),
        objective: str = "in_batch_negatives",
        negatives: int = 0,
        scale: float = 1.0,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        self.check_encoder(model)
        self.check_objective(objective, negatives, scale)
        limit = min(model.config.max_length, max_len or model.config.max_length)
        if min(query_len, document_len) < 4:
            raise ValueError(f"query_len and document_len must be at least 4 tokens; got {query_len} and {document_len}.")
        self.query_len, self.document_len = min(int(query_len), limit), min(int(document_len), limit)
        self.query_expansion, self.attend_to_expansion = bool(query_expansion), bool(attend_to_expansion)
        self.encoder = with_padding_mask(model) if query_expansion and not attend_to_expansion else model
        self.modules = module_layers(modules, self.encoder.outputs[0].shape[-1])
        longest = max(self.query_len, self.document_len, 8)
        super().__init__(_training_model(self.encoder, self.modules), tokenizer, max_len=longest, stride=stride)
        self.query_prefix, self.document_prefix = query_prefix, document_prefix
        self.skiplist_words = tuple(skiplist_words)
        vocabulary = self.tokenizer.vocabulary
        if self.query_expansion and self.tokenizer.mask_id is None:
            raise ValueError("query_expansion must be False for a tokenizer without a mask token.")
        expanded = {"expanded": self.query_expansion, "attended": self.attend_to_expansion}
        skipped = [vocabulary[word] for word in self.skiplist_words if word in vocabulary]
        self._rows = {
            "query": MarkedRows(self.tokenizer, self.query_len, query_prefix, **expanded),
            "document": MarkedRows(self.tokenizer, self.document_len, document_prefix, skipped=skipped),
        }

    @classmethod
    def from_encoder(
        cls,
        encoder: str | Path | keras.Model,
        tokenizer: Any = None,
        *,
        token_width: int = TOKEN_WIDTH,
        modules: Sequence[Any] | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> Self:
        """The embedder on an encoder: see `Task.from_encoder`.

        Args:
            encoder, tokenizer, seed: see `Task.from_encoder`.
            token_width: width of a token's vector, the output of a newly initialised dense layer without bias.
            modules: modules to use instead of that layer and the scaling to length 1.
            **settings: settings of the class and of `Task.from_encoder`.
        """
        task = super().from_encoder(encoder, tokenizer, seed=seed, **settings, modules=() if modules is None else modules)
        if modules is not None:
            return task
        dense = new_dense(task.encoder.outputs[0].shape[-1], token_width, bias=False, seed=seed)
        return cls(task.encoder, task.tokenizer, modules=(dense, UnitModule()), **task.settings())._with_files_of(task)

    @property
    def width(self) -> int:
        """The width of a token's vector."""
        return self.model.outputs[0].shape[-1]

    @property
    def similarity(self) -> str:  # type: ignore[override]
        """MaxSim for queries of at most `query_len` tokens."""
        return f"max_sim@{self.query_len}"

    def stream_of(self, texts: Iterable[str], side: str, batch_tokens: int | None = None) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the vectors of the compared tokens of every text, `(tokens, width)`; see `GroupTask.stream_of`."""
        rows_of = self._rows[side]
        model = embedding_model(self.encoder, any_length=True, modules=tuple(self.modules))
        rows = itertools.chain.from_iterable(map(rows_of, texts_of_stream(texts)))
        finish = lambda vectors, row: vectors[: len(row.ids)][row.scored > 0].astype("float32")  # noqa: E731
        return row_stream(model, rows, lambda batch: self._row_inputs(batch, model), finish, rows_of.length, batch_tokens)

    def scores_of(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The score of each text for a query, `(texts,)`.

        Raises:
            ValueError: not a list, or an empty list.
        """
        (scores,) = self.ranked_scores([query], example_list(texts, "texts"), None)
        return scores

    def training_windows(self, queries: Sequence[str], documents: Sequence[str]) -> tuple[Windows, Windows]:
        return _windows(self._rows["query"](queries)), _windows(self._rows["document"](documents))

    def ranked_scores(self, queries: Sequence[str], documents: Sequence[str], progress: Progress) -> Iterator[Any]:
        vectors = self.counted_documents(documents, progress)
        starts = np.cumsum([0, *map(len, vectors)])
        stored = np.concatenate(vectors)
        for query in self.queries(queries):
            yield max_sim(query, stored, starts)

    def served(self, prompt: str | None = None) -> tuple[keras.Model, dict[str, Any]]:
        """The model from ids to a vector for every token, and the settings to convert texts to rows, see `MarkedRows`."""
        if prompt is not None:
            raise ValueError(f"prompt must be None for a LateInteractionEmbedder, which has prefixes instead; got {prompt!r:.80}.")
        rows = {side: rows.settings() for side, rows in self._rows.items()}
        vectors = BertModel(bare_if_one(self.encoder.inputs), _through(self.modules, self.encoder.outputs[0]))
        vectors.config = self.encoder.config
        return vectors, {"kind": self.kind, "measure": "dot", "rows": rows, "mask_id": self.tokenizer.mask_id}

    def further_files(self) -> dict[str, bytes]:
        """The files with which sentence-transformers reads the Hugging Face folder, including the weights of the modules."""
        names = ("query_len", "document_len", "query_prefix", "document_prefix", "query_expansion", "attend_to_expansion")
        settings = {name: getattr(self, name) for name in (*names, "skiplist_words")}
        return late_interaction_files(modules_of(self.modules), **settings)

    def _with_files_of(self, task):
        self.tokenizer_files = task.tokenizer_files
        return self

    def inputs_of(self, windows: Windows) -> tuple[list[Any], list[int]]:
        """The inputs of the training model; `_windows` says which fields hold `attended` and `scored`."""
        return self._row_inputs(zip(windows.ids, windows.segments, windows.word_ids, windows.best, strict=True), self.model)

    def _row_inputs(self, rows, model):
        ids, segments, attended, scored = (list(column) for column in zip(*rows, strict=True))
        names = [tensor.name for tensor in model.inputs if tensor.name != SCORED]
        inputs, padding = model_inputs(names, ids, segments, self.tokenizer.pad_id)
        inputs = [attended if name == "Input-Mask" else values for name, values in zip(names, inputs, strict=True)]
        return (inputs, padding) if len(names) == len(model.inputs) else ([*inputs, scored], [*padding, 0])


def with_padding_mask(model: keras.Model) -> keras.Model:
    """A model with the same weights and the input `Input-Mask`, which can mask any token, not only padding.

    Args:
        model: a model with a config; a model that has this input is returned unchanged.
    """
    if any(tensor.name == "Input-Mask" for tensor in model.inputs):
        return model
    with dtype_scope(model.get_layer("Embedding-Token").dtype_policy):
        masked = build_model(model.config, heads_of(model), padding_mask=True)
    values = {variable.path: variable for variable in model.weights}
    for variable in masked.weights:
        variable.assign(to_numpy(values[variable.path]))
    masked.load_report = getattr(model, "load_report", None)
    return masked


def _through(modules, x):
    for layer in modules:
        x = layer(x)
    return x


def _training_model(encoder, modules):
    """The encoder with its modules; vectors of tokens that are not compared are 0."""
    x = _through(modules, encoder.outputs[0])
    scored = keras.Input((None,), dtype="int32", name=SCORED)
    model = BertModel([*encoder.inputs, scored], layers.ScoredTokens(dtype="float32", name="Scored-Tokens")([x, scored]))
    model.config, model.load_report = encoder.config, getattr(encoder, "load_report", None)
    return model


def _windows(rows):
    """Rows as `Windows`, with `attended` stored as `word_ids` and `scored` as `best`."""
    none = [np.zeros((len(row.ids), 2), "int32") for row in rows]
    return Windows(
        ids=[row.ids for row in rows],
        segments=[row.segments for row in rows],
        examples=np.arange(len(rows)),
        sides=[row.segments for row in rows],
        best=[row.scored for row in rows],
        offsets=none,
        word_ids=[row.attended for row in rows],
    )
