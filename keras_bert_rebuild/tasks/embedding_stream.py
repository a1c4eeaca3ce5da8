"""Vectors of a stream of texts, in order, as fast as the model allows."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import ENOUGH, bucket_lengths, chosen_lengths, rows_of_batch
from keras_bert_rebuild.data.buckets import LOOK_AHEAD, Buckets, EncodedBlock
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.tasks.embedding_model import RowAnswers, embedding_model, lengths_of, longest_row
from keras_bert_rebuild.tasks.text_rows import mean_of_windows
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.segmented import slices

# Number of texts that are tokenised at once, and of their characters, which limit the memory of long ones.
TEXTS_PER_CALL = 512
CHARACTERS_PER_CALL = 1 << 20

# Number of texts whose lengths determine the lengths that rows are padded to, if every length is compiled.
FIRST_TEXTS = 1024

# Tokens per batch on a CPU, where more are not faster, and on an accelerator: of MiniLM, 32,768 were slower on an H100.
BATCH_TOKENS = 2048
ACCELERATOR_BATCH_TOKENS = 16384


def batch_tokens_of_device() -> int:
    """A number of tokens per batch that is fast on the device of the backend."""
    return ACCELERATOR_BATCH_TOKENS if traits.runs_on_accelerator() else BATCH_TOKENS


class EmbeddingStream:
    """Texts in, vectors out.

    Args:
        answer: a function of rows `(ids, segments)` and the length to pad them to that returns a vector for each row, or the
            argument of `fetch`.
        tokenizer: a `BatchTokenizer`.
        max_len: maximum number of tokens in a row; longer texts are truncated.
        lengths: the lengths that rows may be padded to; the last is `max_len`. None for many, with little padding.
        batch_tokens: tokens per batch, including padding.
        look_ahead: maximum number of texts read ahead of the output; None for 4,096, or `batch_tokens` if that is more.
        prompt: a text that is put before every text.
        stride: number of tokens that consecutive windows of a long text share; None truncates long texts to `max_len`. The vector
            of a text is the mean over its windows, weighted by their numbers of tokens.
        fetch: see `Buckets`.
        few: if every length is compiled, choose at most five lengths by the first 1,024 texts; see `chosen_lengths`.
        start: called before the first batch of every stream.
        ahead: with `few`, called with the batches that the first 1,024 texts need, pairs of a number of rows and a length, before
            the first of them is computed; later streams of the same lengths need no others.

    Example: `for vector in EmbeddingStream.from_model(model, tokenizer).stream(lines): ...`
    """

    def __init__(
        self,
        answer: Callable[[Any, int], Any],
        tokenizer: BatchTokenizer,
        max_len: int,
        lengths: Sequence[int] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        look_ahead: int | None = None,
        prompt: str = "",
        fetch: Callable[[Any], Any] | None = None,
        few: bool = False,
        stride: int | None = None,
        start: Callable[[], Any] | None = None,
        ahead: Callable[[Sequence[tuple[int, int]]], Any] | None = None,
    ) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1; got {batch_tokens}.")
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.max_len = max_len
        self.stride = stride
        lengths = lengths or bucket_lengths(max_len, compiled=few)
        self._buckets = Buckets(answer, lengths, batch_tokens, look_ahead or max(LOOK_AHEAD, batch_tokens), fetch)
        self._to_choose = few
        self._start = start
        self._ahead = ahead

    @classmethod
    def from_model(
        cls,
        model: keras.Model,
        tokenizer: BatchTokenizer,
        poolings: Sequence[str] = ("mean",),
        normalize: bool = False,
        max_len: int | None = None,
        modules: Sequence[Any] = (),
        batch_tokens: int | None = None,
        include_prompt: bool = True,
        width: int | None = None,
        lengths: Sequence[int] | None = None,
        **options: Any,
    ) -> Self:
        """The stream of a model.

        Args:
            model: a model whose first output is a sequence, or, without poolings, the vector itself.
            tokenizer: the model's tokenizer.
            poolings: some of `POOLINGS`, concatenated in that order.
            normalize: scale vectors to length 1.
            max_len: maximum number of tokens in a row; None for the maximum of the model.
            modules: modules or layers that are applied to vectors between pooling and scaling, see `module_layers`.
            batch_tokens: tokens per batch, including padding; None for 2,048 on a CPU and 16,384 on an accelerator.
            include_prompt: whether the tokens of the prompt, and the class token before it, are pooled.
            width: number of dimensions of the scaled vector to return; None for all.
            lengths: lengths that rows are padded to, such as those of another stream; None to choose fast ones.
            options: further arguments of the class.

        Raises:
            ValueError: `max_len` is above the maximum of the model, or `batch_tokens` is less than 1.
        """
        skip = 0 if include_prompt else prompt_tokens(tokenizer, options.get("prompt", ""))
        pooled = embedding_model(model, poolings, normalize, any_length=True, modules=modules, skip=skip, width=width)
        longest = longest_row(pooled)
        if max_len is not None and not 2 <= max_len <= longest:
            raise ValueError(f"max_len must be from 2 to {longest}, the maximum of the model; got {max_len}.")
        max_len = max_len or longest
        tokens = batch_tokens_of_device() if batch_tokens is None else batch_tokens
        answers = RowAnswers(pooled, tokenizer.pad_id, max_rows=lambda length: rows_of_batch(tokens, length))
        few = lengths is None and pooled.inputs[0].shape[1] is None and traits.compiles_each_shape(pooled)
        lengths = lengths_of(pooled, max_len) if lengths is None else lengths
        calls: dict[str, Any] = {"fetch": answers.fetch, "start": answers.start, "ahead": answers.compile_ahead}
        return cls(answers, tokenizer, max_len, lengths, tokens, **calls, **{"few": few, **options})

    @property
    def lengths(self) -> Sequence[int]:
        """The lengths that rows are padded to; with `few` they change once."""
        return self._buckets.lengths

    def rows(self, length: int) -> int:
        """The number of rows in a full batch of a length."""
        return self._buckets.rows(length)

    def __call__(self, texts: Iterable[str]) -> npt.NDArray[Any]:
        """The vectors of texts as one array `(texts, width)`.

        Raises:
            ValueError: there are no texts; or as for `stream`.
        """
        vectors = list(self.blocks(texts))
        if not vectors:
            raise ValueError("texts must be a list of at least one text; got an empty list.")
        return np.concatenate(vectors)

    def stream(
        self, texts: Iterable[str], finish: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield the vector of every text, in order and in constant memory.

        Args:
            texts: an iterable of strings; it may be endless. A few thousand are read ahead.
            finish: a function of the vectors of many texts `(texts, width)` whose results are yielded instead.

        Raises:
            ValueError: a string instead of a list of texts, or an item that is not a string.
        """
        blocks = self.blocks(texts)
        return itertools.chain.from_iterable(blocks if finish is None else map(finish, blocks))

    def blocks(self, texts: Iterable[str]) -> Iterator[npt.NDArray[Any]]:
        """Yield the vectors of `stream` in arrays `(texts, width)`, each of up to 512 texts."""
        check_list_of_texts(texts)
        windows: deque[tuple[Any, Any]] = deque()  # for every block that was read ahead, the sizes and texts of its rows
        vectors = self._vectors(self._encoded(iter(texts), windows))
        return vectors if self.stride is None else (_of_texts(rows, *windows.popleft()) for rows in vectors)

    def _vectors(self, blocks):
        if self._start is not None:
            self._start()
        if self._to_choose:
            first, rows = [], 0
            for block in blocks:
                first.append(block)
                rows += len(block.sizes)
                if rows >= FIRST_TEXTS:
                    break
            sizes = np.concatenate([block.sizes for block in first]) if first else np.zeros(0, int)
            if rows >= ENOUGH:
                lengths = chosen_lengths(sizes[:FIRST_TEXTS], self.max_len)
                self._buckets = self._buckets.with_lengths(lengths)
                self._to_choose = False  # so that later texts reuse the same programs
            if self._ahead is not None:
                self._ahead(self._buckets.batches(sizes, are_all=rows < FIRST_TEXTS))
            blocks = itertools.chain(first, blocks)
        yield from self._buckets.stream_blocks(blocks)

    def _encoded(self, texts, windows):
        for part in texts_of_stream(texts):
            if self.prompt:
                part = [self.prompt + text for text in part]
            for some in slices(part, CHARACTERS_PER_CALL):
                encoded = self.tokenizer.encode_rows(some, self.max_len, self.stride)
                sizes = encoded.mask.sum(1)
                if self.stride is not None:
                    windows.append((sizes, encoded.texts))
                yield EncodedBlock(encoded.ids, encoded.segments, sizes)


def _of_texts(vectors, sizes, texts):
    """A vector for every text from the vectors of its windows, `(texts, width)`."""
    return vectors if len(vectors) == texts[-1] + 1 else mean_of_windows(vectors, sizes, texts).astype(vectors.dtype)


def check_list_of_texts(texts: Iterable[Any]) -> None:
    """Raise a ValueError for a string instead of a list of texts."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"texts must be a list of texts; got the string {texts[:40]!r}: put it into a list.")


def texts_of_stream(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts of a stream in lists, each to be tokenised at once.

    Raises:
        ValueError: a string instead of a list of texts, or an item that is not a string.
    """
    check_list_of_texts(texts)
    texts = iter(texts)
    for first in itertools.count(step=TEXTS_PER_CALL):
        part = list(itertools.islice(texts, TEXTS_PER_CALL))
        if not part:
            return
        check_strings(part, first)
        yield part


def check_strings(texts: Sequence[Any], first: int) -> None:
    """Raise a ValueError if one of the texts, which are counted from `first`, is not a string."""
    if set(map(type, texts)) == {str}:  # in a tenth of the time
        return
    for number, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise ValueError(f"texts must be strings; number {number} is {type(text).__name__} {str(text)[:40]!r}.")


def prompt_tokens(tokenizer: BatchTokenizer, prompt: str) -> int:
    """The number of tokens at the start of a row that belong to a prompt: the class token and its own, without the separator."""
    return len(tokenizer.encode_batch([prompt]).ids[0]) - 1 if prompt else 0
