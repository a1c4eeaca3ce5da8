"""The vectors of texts and of words after the embedding and after every block."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.data.batches import SHORT_TEXTS, lengths_up_to, padded
from keras_bert_rebuild.data.labelled.length_buckets import bucket_batches
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.models.memory import available_bytes
from keras_bert_rebuild.tasks.text_rows import LONGEST, encode_windows
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

POOLINGS = ("mean", "cls")


class BlockVectors:
    """Runs a model on texts block by block.

    The vectors of a depth are those that the next block reads; for pre-norm blocks, the last ones are taken after the final norm,
    as the heads read them.

    Args:
        model: any model with an encoder of this library in it.
        tokenizer: its tokenizer, such as from `load_tokenizer`.
        max_len: maximum number of tokens in a row; None for the maximum of the model, at most 512. Longer texts are truncated;
            longer lists of words are read in windows.
        batch_size: rows per batch.

    Raises:
        ValueError: the model has no encoder, or has inputs that texts do not determine; or `max_len` is out of range.
    """

    def __init__(self, model: keras.Model, tokenizer: BatchTokenizer, max_len: int | None = None, batch_size: int = 32) -> None:
        if not isinstance(tokenizer, BatchTokenizer):
            raise ValueError(f"tokenizer must be from this library, such as from load_tokenizer; got {type(tokenizer).__name__}.")
        self.encoder, self.tokenizer, self.batch_size = find_encoder(model), tokenizer, batch_size
        names = {tensor.name for tensor in self.encoder.embedding.inputs}
        unknown = names - {"Input-Token", "Input-Segment", "Input-Mask"}
        if unknown:
            raise ValueError(f"the model must have only inputs that texts determine; it also has {', '.join(sorted(unknown))}.")
        self.fixed = self.encoder.host.inputs[0].shape[1]
        longest = self.fixed or self.encoder.max_length or LONGEST
        self.max_len = min(longest, LONGEST) if max_len is None else max_len
        if not 8 <= self.max_len <= longest:
            raise ValueError(f"max_len must be from 8 to {longest}, the positions of the model; got {max_len}.")
        self.depths = ("embedding", *(f"block {i + 1}" for i in range(len(self.encoder.blocks))))

    def of_texts(self, texts: Sequence[str], pairs: Sequence[str] | None = None, pooling: str = "mean") -> np.ndarray:
        """A vector for every text or pair at every depth, `(depths, texts, width)`, float32.

        Args:
            texts, pairs: the texts, and the second text of each, or None.
            pooling: "mean" over all tokens, including special ones, or "cls", the first token.
        """
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}; got {pooling!r}.")
        windows = encode_windows(self.tokenizer, texts, pairs, max_len=self.max_len, stride=0, truncate=True)
        depth_vectors = self._empty(len(windows.ids))
        for rows, mask, states in self._read(windows):
            weights = mask / mask.sum(1, keepdims=True)
            for depth, state in enumerate(states):
                depth_vectors[depth][rows] = state[:, 0] if pooling == "cls" else np.einsum("bl,bld->bd", weights, state)
        return depth_vectors

    def of_words(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A vector for every word at every depth: of its first token, in the window with the most context around it.

        Args:
            sentences: lists of words.

        Returns:
            `(depths, words, width)`, float32; and for each word the index of its sentence and its index in the sentence,
            `(words,)`. Words that the tokenizer drops are missing.
        """
        sentences = [list(words) for words in sentences]
        stride = self.max_len // 4 if self.max_len > 8 else 0
        windows = encode_windows(self.tokenizer, sentences, max_len=self.max_len, stride=stride, is_pretokenized=True)
        first_tokens = words_of_tokens(windows, sentences).first_tokens
        columns_of = [np.flatnonzero(row >= 0) for row in first_tokens]
        starts = np.cumsum([0, *(len(columns) for columns in columns_of)])
        depth_vectors = self._empty(int(starts[-1]))
        for rows, _, states in self._read(windows):
            for depth, state in enumerate(states):
                for i, row in enumerate(rows):
                    depth_vectors[depth][starts[row] : starts[row + 1]] = state[i, columns_of[row]]
        sentence_of = np.repeat(windows.examples, np.diff(starts))
        word_of = np.concatenate([row[columns] for row, columns in zip(first_tokens, columns_of, strict=True)])
        return depth_vectors, sentence_of, word_of

    def _empty(self, count):
        shape = (len(self.depths), count, self.encoder.width)
        needed, available = 4 * int(np.prod(shape)), available_bytes()
        if available is not None and needed > available:
            raise MemoryError(
                f"the vectors would have shape {shape} and need {needed / 1e9:.1f} GB; {available / 1e9:.1f} GB of memory "
                "are free: use fewer texts."
            )
        return np.empty(shape, "float32")

    def _read(self, windows):
        """For every batch the indices of its rows, the mask `(batch, length)`, and an iterator of vectors by depth."""
        sizes = [len(row) for row in windows.ids]
        lengths = [self.fixed] if self.fixed else lengths_up_to(max(sizes), SHORT_TEXTS)
        for rows, length in bucket_batches(sizes, self.batch_size, lengths):
            rows = np.asarray(rows)
            mask = np.arange(length) < np.array([[sizes[row]] for row in rows])
            arrays = {
                "Input-Token": padded([windows.ids[row] for row in rows], length, self.tokenizer.pad_id),
                "Input-Segment": padded([windows.segments[row] for row in rows], length),
                "Input-Mask": mask.astype("int32"),
            }
            yield rows, mask, self._states(self.encoder.arrays(arrays))

    def _states(self, inputs):
        return map(_array, self.encoder.states(self.encoder.embed(inputs), gradients=False, final_norm=True))


def _array(tensor: Any) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(ops.stop_gradient(tensor), "float32"))
