"""Vectors of a stream of texts, in order, as fast as the model allows."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import LOOK_AHEAD, Buckets, bucket_lengths
from keras_bert_rebuild.tasks.embedding_model import answer_rows, embedding_model, lengths_of, longest_row, with_modules
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

# Texts that are tokenised at once.
TEXTS_PER_CALL = 256

# Enough for fast matrix products on a CPU; a GPU needs more.
BATCH_TOKENS = 2048


class EmbeddingStream:
    """Texts in, vectors out.

    Args:
        answer: a function of rows `(ids, segments)` and the length to pad them to that returns a vector for each row.
        tokenizer: a `BatchTokenizer`.
        max_len: maximum number of tokens in a row; longer texts are truncated.
        lengths: the lengths that rows may be padded to; the last one is `max_len`.
        batch_tokens: tokens in a batch, padding included.
        look_ahead: texts that may be read before the first of them is answered.
        prompt: the text to put before every text.

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
            model: its first output is a sequence, or without poolings the vector itself.
            tokenizer: its tokenizer.
            poolings: some of `POOLINGS`, concatenated in that order.
            normalize: scale vectors to length 1.
            max_len: maximum number of tokens in a row; None for the maximum of the model.
            modules: the layers after the pooling and before the scaling, as `read_sentence_pooling` finds them.
            options: those of the class.

        Raises:
            ValueError: `max_len` is above the maximum of the model.
        """
        pooled = embedding_model(model, poolings, normalize and not modules, any_length=True)
        pooled = with_modules(pooled, modules, normalize and bool(modules))
        longest = longest_row(pooled)
        if max_len is not None and not 2 <= max_len <= longest:
            raise ValueError(f"max_len must be from 2 to {longest}, the maximum of the model; got {max_len}.")
        max_len = max_len or longest
        lengths = lengths_of(pooled, max_len)

        def answer(rows, length):
            return answer_rows(pooled, rows, length, tokenizer.pad_id, max_rows=stream.rows(length))

        stream = cls(answer, tokenizer, max_len, lengths, **options)
        return stream

    def rows(self, length: int) -> int:
        """The number of rows in a full batch of a length."""
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
        """Yield the vector of every text, in order, in constant memory.

        Args:
            texts: an iterable of strings; it may be endless. Some thousands are read ahead.

        Raises:
            ValueError: a string instead of a list of texts, or an item that is not a string.
        """
        if isinstance(texts, (str, bytes)):
            raise ValueError(f"texts must be a list of texts; got the string {texts[:40]!r}: put it into a list.")
        return self._buckets.stream(self._rows(iter(texts)))

    def _rows(self, texts):
        for first in itertools.count(step=TEXTS_PER_CALL):
            part = list(itertools.islice(texts, TEXTS_PER_CALL))
            if not part:
                return
            for number, text in enumerate(part, first):
                if not isinstance(text, str):
                    raise ValueError(f"texts must be strings; number {number} is {type(text).__name__} {str(text)[:40]!r}.")
            if self.prompt:
                part = [self.prompt + text for text in part]
            encoded = self.tokenizer.encode_batch(part, max_len=self.max_len)
            yield from zip(encoded.ids, encoded.segments, strict=True)
