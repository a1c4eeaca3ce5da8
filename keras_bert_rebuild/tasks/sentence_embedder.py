"""Vectors of sentences, trained so that similar texts have vectors of similar direction."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.pretrained.sentence_files import dense_files
from keras_bert_rebuild.tasks.embedder import (
    ALWAYS,
    MEASURES,
    checked_poolings,
    checked_prompts,
)
from keras_bert_rebuild.tasks.embedding_model import embedding_model, pooled_model, with_modules
from keras_bert_rebuild.tasks.embedding_stream import EmbeddingStream, prompt_tokens
from keras_bert_rebuild.tasks.objectives import VectorTraining
from keras_bert_rebuild.tasks.sentence_modules import module_layers, modules_of
from keras_bert_rebuild.tasks.task import Progress
from keras_bert_rebuild.tasks.text_rows import Windows, example_list, paired_lists, weighted_mean
from keras_bert_rebuild.tasks.vector_task import VectorTask

# The minimum of max_len for truncated texts: the special tokens.
SHORTEST = 2


class SentenceEmbedder(VectorTask):
    """Computes vectors of texts, and the similarity of the vectors of pairs of texts.

        vector(text) = modules(pooling over tokens (last block)), scaled to length 1

    A text that is too long for the model is truncated, or split into windows whose vectors are averaged, weighted by their numbers
    of tokens.

    Args:
        model: a `BertModel` without heads, which outputs the last block; poolings and modules are added.
        tokenizer: as for `task_tokenizer`.
        poolings: "cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken" or several, concatenated in this order.
        modules: modules that are applied after pooling, see `module_layers`. They are trained and saved with the model.
        normalize: scale vectors to length 1, after all modules.
        prompts: prompts, which are put before texts, by name; "query" and "document" are for `queries` and `documents`, and empty
            by default.
        default_prompt: the name of the prompt for other texts; None for no prompt.
        include_prompt: whether the tokens of a prompt, and the class token before it, are pooled with those of the text.
        truncate_dim: number of dimensions of a vector to return; None for all.
        measure: the similarity of vectors: "cosine" or "dot", their product.
        truncate: truncate long texts to `max_len`, as sentence-transformers does, instead of splitting them into windows.
        objective: the training objective, one of `OBJECTIVES` for the kind of examples: "cosine" fits cosines to the scores of
            pairs; "in_batch_negatives" finds the second text of every pair among those of the batch. None: the first of the kind.
        score_range: the scores that correspond to the cosines 0 and 1.
        scale: factor of the cosines in objectives that compare them; None for the default of the objective.
        example_kind: the examples that it is trained on: "similarity", pairs with scores; "retrieval", queries with positives and
            negatives; "classification", texts with labels.
        training: further training settings.
        max_len, stride: see `Task`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    kind = "embedding"
    heads = ()
    vectors = "dense"

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
        objective: str | None = None,
        score_range: Sequence[float] = (0.0, 1.0),
        scale: float | None = None,
        example_kind: str = "similarity",
        training: VectorTraining | None = None,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        self.check_encoder(model)
        self.encoder = model
        self.poolings = checked_poolings(poolings)
        self.prompts = checked_prompts(prompts, default_prompt)
        self.default_prompt = default_prompt
        self.include_prompt = bool(include_prompt)
        if measure not in MEASURES:
            raise ValueError(f"measure must be {' or '.join(MEASURES)}; got {measure!r}.")
        if not include_prompt and not truncate:
            raise ValueError(
                "include_prompt=False needs truncate=True, since later windows of a text have no prompt; got truncate=False."
            )
        pooled = pooled_model(model, self.poolings)
        self.modules = module_layers(modules, pooled.outputs[0].shape[-1])
        self.normalize, self.truncate_dim, self.measure, self.truncate = bool(normalize), truncate_dim, measure, bool(truncate)
        self.shortest_row = SHORTEST if truncate else type(self).shortest_row
        with_vector = with_modules(pooled, self.modules)
        with_vector.load_report = getattr(model, "load_report", None)
        super().__init__(with_vector, tokenizer, max_len=max_len, stride=stride)
        full = self.model.outputs[0].shape[-1]
        if truncate_dim is not None and not 1 <= truncate_dim <= full:
            raise ValueError(f"truncate_dim must be from 1 to {full}, the width of a vector; got {truncate_dim}.")
        self.set_objective(objective, score_range, scale, example_kind, training)

    @property
    def width(self) -> int:
        """The width of a vector."""
        return self.truncate_dim or self.model.outputs[0].shape[-1]

    def __call__(self, texts: Sequence[str], batch_size: int | None = None, prompt: str | None = None) -> npt.NDArray[np.float32]:
        """The vectors of texts, `(texts, width)`, float32, each of length 1 unless `normalize` is False.

        Args:
            texts: a list of texts.
            batch_size: texts per batch; None for batches of the number of tokens that suits the device, as in `stream`.
            prompt: see `prompt_text`.

        Raises:
            ValueError: not a list, or an empty list.
        """
        texts = example_list(texts, "texts")
        if batch_size is None:
            return self._finished(self._embedding_stream(prompt)(texts))
        return self._finished(self._pooled(texts, batch_size, None, prompt))

    def stream(
        self, texts: Iterable[str], prompt: str | None = None, batch_tokens: int | None = None
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the vector of every text `(width,)`, float32, in order and in constant memory.

        Args:
            texts: an iterable of strings; it may be endless.
            prompt: see `prompt_text`.
            batch_tokens: as for `EmbeddingStream.from_model`.
        """
        return self._embedding_stream(prompt, batch_tokens).stream(texts, self._finished)

    def queries(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors of queries, as `stream`: with the prompt "query", scaled so that products with documents equal `measure`."""
        return self._embedding_stream("query").stream(texts, self._compared)

    def documents(self, texts: Iterable[str]) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors of documents: as `queries`, with the prompt "document"."""
        return self._embedding_stream("document").stream(texts, self._compared)

    def document_encoder(self, batch_tokens: int | None = None) -> Callable[[Iterable[str]], Iterator[npt.NDArray[np.float32]]]:
        """A function like `documents`, to be called with one chunk of texts after another: see `text_encoder`."""
        return self._encoder("document", batch_tokens, self._compared)

    def text_encoder(
        self, prompt: str | None = None, batch_tokens: int | None = None
    ) -> Callable[[Iterable[str]], Iterator[npt.NDArray[np.float32]]]:
        """A function like `stream`, to be called with one chunk of texts after another.

        All calls pad rows to lengths chosen from the texts of the first call, so that compiled programs are reused. Otherwise calls
        are independent.

        Args:
            prompt, batch_tokens: as for `stream`.
        """
        return self._encoder(prompt, batch_tokens, self._finished)

    def _encoder(self, prompt, batch_tokens, finish):
        streams: list[EmbeddingStream] = []

        def encode(texts):
            lengths = streams[0].lengths if streams else None
            stream = self._embedding_stream(prompt, batch_tokens, lengths)
            if not streams:
                streams.append(stream)
            return stream.stream(texts, finish)

        return encode

    def similarity(self, firsts: Sequence[str], seconds: Sequence[str], batch_size: int = 32) -> npt.NDArray[np.float32]:
        """The similarity of each text and the text of the same index in another list, `(texts,)`: by default the cosine.

        Raises:
            ValueError: not a list, an empty list, or a different number of first and second texts.
        """
        firsts, seconds = paired_lists(firsts, seconds)
        vectors = self.compared([*firsts, *seconds], batch_size)
        return np.sum(vectors[: len(firsts)] * vectors[len(firsts) :], axis=1)

    def windows(self, texts: Iterable[Any], pairs: Iterable[str] | None = None, **options: Any) -> Windows:
        return super().windows(texts, pairs, truncate=self.truncate, **options)

    def further_files(self) -> dict[str, bytes]:
        """The files with which sentence-transformers reads the Hugging Face folder."""
        names = ("poolings", "normalize", "prompts", "default_prompt", "include_prompt", "truncate_dim", "measure")
        settings = {name: getattr(self, name) for name in names}
        return dense_files(self.model.config.hidden_size, self.max_len, modules=modules_of(self.modules), **settings)

    def served(self, prompt: str | None = None) -> tuple[keras.Model, dict[str, Any]]:
        """The model from ids to the vectors of `__call__`, in one graph; if prompts are not pooled, for the given prompt only."""
        text = self.prompt_text(prompt)
        model = embedding_model(
            self.encoder,
            self.poolings,
            self.normalize,
            any_length=True,
            modules=self.modules,
            skip=self._tokens_to_skip(text),
            width=self.truncate_dim,
        )
        prompts = {**dict.fromkeys(ALWAYS, ""), **self.prompts} if self.include_prompt else {}
        return model, {"kind": self.kind, "measure": self.measure, "prompt": text, "prompts": prompts}

    def _embedding_stream(self, prompt=None, batch_tokens=None, lengths=None):
        """The `EmbeddingStream` of vectors after the modules."""
        return EmbeddingStream.from_model(
            self.encoder,
            self.tokenizer,
            self.poolings,
            max_len=self.max_len,
            modules=self.modules,
            batch_tokens=batch_tokens,
            lengths=lengths,
            include_prompt=self.include_prompt,
            prompt=self.prompt_text(prompt),
            stride=None if self.truncate else self.stride,
        )

    def _pooled(self, texts, batch_size, progress, prompt=None):
        """The vectors of a list of texts after the modules, `(texts, width)`."""
        prompt = self.prompt_text(prompt)
        skip = self._tokens_to_skip(prompt)
        model = embedding_model(self.encoder, self.poolings, modules=self.modules, skip=skip) if skip else self.model
        windows = self.windows([prompt + text for text in texts])
        return weighted_mean(self.predict_windows(windows, batch_size, progress, model), windows)

    def _tokens_to_skip(self, prompt):
        return 0 if self.include_prompt else prompt_tokens(self.tokenizer, prompt)

    def compared(
        self, texts: Sequence[str], batch_size: int = 32, progress: Progress = None, prompt: str | None = None
    ) -> npt.NDArray[np.float32]:
        """The vectors of a list of texts whose product is their similarity, `(texts, width)`; see `__call__`."""
        return self._compared(self._pooled(texts, batch_size, progress, prompt))

    def _finished(self, vectors):
        """Final vectors, scaled and truncated: float32 `(..., width)`."""
        return (unit(vectors) if self.normalize else vectors)[..., : self.width].astype("float32")

    def _compared(self, vectors):
        """Vectors whose product is their similarity: float32 `(..., width)`."""
        finished = self._finished(vectors)
        return unit(finished) if self.measure == "cosine" else finished


def unit(vectors):
    """Vectors `(..., width)` scaled to length 1; zero vectors are unchanged."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
