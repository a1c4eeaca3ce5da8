"""Vectors of a stream of texts, as fast as the model can and in their order."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.length_batches import LOOK_AHEAD, Buckets, bucket_lengths
from keras_bert_rebuild.tasks.embedding_model import answer_rows, embedding_model, lengths_of, longest_row, with_modules
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

# Texts that are cut into tokens at once.
TEXTS_A_CALL = 256

# Enough for the products of a processor to be fast; a GPU takes more.
BATCH_TOKENS = 2048


class EmbeddingStream:
    """Texts in, vectors out.

    Args:
        answer: a function of rows `(ids, segments)` and the length to pad them to, which gives a vector a row.
        tokenizer: a `BatchTokenizer`.
        max_len: tokens of a row at the most; longer texts are cut.
        lengths: the lengths that rows may be padded to; the last one is `max_len`.
        batch_tokens: tokens of a batch, padding included.
        look_ahead: texts that may be read before the first of them is answered.
        prompt: what is put before every text.

    Example: `for vector in EmbeddingStream.of_model(model, tokenizer).stream(lines): ...`
    """

    def __init__(
        self,
        answer: Callable[[Any, int], Any],
        tokenizer: BatchTokenizer,
        max_len: int,
        lengths: Sequence[int] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        look_ahead: int = LOOK_AHEAD,
        prompt: str = "",
    ) -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.max_len = max_len
        self._buckets = Buckets(answer, lengths or bucket_lengths(max_len, compiled=False), batch_tokens, look_ahead)

    @classmethod
    def of_model(
        cls,
        model: keras.Model,
        tokenizer: BatchTokenizer,
        poolings: Sequence[str] = ("mean",),
        normalize: bool = False,
        max_len: int | None = None,
        modules: Sequence[Any] = (),
        **options: Any,
    ) -> Self:
        """The stream of a model.

        Args:
            model: its first output is a sequence, or with no poolings the vector itself.
            tokenizer: its tokenizer.
            poolings: some of `POOLINGS`, joined in their order.
            normalize: scale vectors to length 1.
            max_len: tokens of a row at the most; None for what the model takes.
            modules: what goes on the pooled vector before it is scaled, as `read_sentence_pooling` finds it.
            options: those of the class.

        Raises:
            ValueError: `max_len` is more than the model takes.
        """
        pooled = embedding_model(model, poolings, normalize and not modules, any_length=True)
        pooled = with_modules(pooled, modules, normalize and bool(modules))
        longest = longest_row(pooled)
        if max_len is not None and not 2 <= max_len <= longest:
            raise ValueError(f"max_len must be from 2 to {longest}, what the model takes; got {max_len}.")
        max_len = max_len or longest
        lengths = lengths_of(pooled, max_len)

        def answer(rows, length):
            return answer_rows(pooled, rows, length, tokenizer.pad_id, most=stream.rows(length))

        stream = cls(answer, tokenizer, max_len, lengths, **options)
        return stream

    def rows(self, length: int) -> int:
        """How many rows a full batch of a length has."""
        return self._buckets.rows(length)

    def __call__(self, texts: Iterable[str]) -> npt.NDArray[Any]:
        """The vectors of texts as one array `(texts, width)`.

        Raises:
            ValueError: no texts, or as for `stream`.
        """
        vectors = list(self.stream(texts))
        if not vectors:
            raise ValueError("texts must be a list of at least one; got an empty one.")
        return np.stack(vectors)

    def stream(self, texts: Iterable[str]) -> Iterator[npt.NDArray[Any]]:
        """Yield the vector of every text, in order, in memory that does not grow.

        Args:
            texts: an iterable of strings; it may be endless. Some thousand are read ahead.

        Raises:
            ValueError: a string in place of a list of texts, or something else than a string in it.
        """
        if isinstance(texts, (str, bytes)):
            raise ValueError(f"texts must be a list of texts; got the string {texts[:40]!r}: put it into a list.")
        return self._buckets.stream(self._rows(iter(texts)))

    def _rows(self, texts):
        for first in itertools.count(step=TEXTS_A_CALL):
            part = list(itertools.islice(texts, TEXTS_A_CALL))
            if not part:
                return
            for number, text in enumerate(part, first):
                if not isinstance(text, str):
                    raise ValueError(f"texts must be strings; number {number} is {type(text).__name__} {str(text)[:40]!r}.")
            if self.prompt:
                part = [self.prompt + text for text in part]
            encoded = self.tokenizer.encode_batch(part, max_len=self.max_len)
            yield from zip(encoded.ids, encoded.segments, strict=True)
