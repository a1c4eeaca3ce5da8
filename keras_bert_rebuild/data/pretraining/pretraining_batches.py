"""Pretraining batches as a pure function of corpus, seed, epoch and index."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_rebuild.anatomy.heads import DRAW_BITS
from keras_bert_rebuild.data.batches import WINDOW, EpochBatches, length_windows
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.pretraining.examples import SegmentExamples, lay_out
from keras_bert_rebuild.data.pretraining.masking import UNITS, factorisation_order, mask_tokens
from keras_bert_rebuild.data.pretraining.packed_rows import PackedPairs, PackedPieces, lay_out_packed, sequence_lengths
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.data.random_numbers import Stream, below, uniform

NEXT_SENTENCE = ("nsp", "sop", None)


def pretraining_batches(
    store: Any,
    batch_size: int,
    seq_len: int,
    max_predictions: int,
    seed: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    **settings: Any,
) -> "PretrainingBatches":
    """Batches for `fit` and `evaluate` of a model with an MLM head and an NSP head, an SOP head or neither.

    Args:
        store: a `TokenStore`, the folder of one, or another `TokenCorpus`, such as a `MixedCorpus`.
        batch_size, seq_len, max_predictions, seed, process_index, process_count, **settings: see `PretrainingBatches`, which
            describes a batch.
    """
    store = TokenStore(store) if isinstance(store, (str, Path)) else store
    return PretrainingBatches(store, batch_size, seq_len, max_predictions, seed, process_index, process_count, **settings)


class PretrainingBatches(EpochBatches):
    """Pretraining batches, epoch after epoch; any batch can be made without those before it.

    An epoch is a pass over the corpus, minus the last examples if they do not fill a batch. With `steps_per_epoch`, an epoch is
    that many consecutive batches of the endless sequence of passes; a batch may begin in one pass and end in the next.

    Args:
        store: a `TokenCorpus`, or any object with its attributes.
        batch_size: examples per batch, summed over all processes; a multiple of `process_count`.
        seq_len: length of every example, padding included.
        max_predictions: maximum number of positions to predict in an example.
        seed: an integer.
        process_index: the index of this process, from 0.
        process_count: number of processes that share every batch, each with consecutive rows of it.
        steps_per_epoch: batches per epoch; None for one pass.
        next_sentence: "nsp" for pairs whose second segment follows the first or is random; "sop" for two consecutive segments, in
            order or swapped; None for one segment.
        masking: what is masked as a whole: "token", "whole_word", "ngram" (spans of up to three words) or "span" (up to five).
        mask_rate, mask_mask_rate, mask_random_rate: see `mask_tokens`.
        random_next_rate: rate of random second segments, or of swapped segments.
        short_seq_prob: fraction of the examples that are shortened to a random length.
        lengths: lengths to pad to, for corpora in which most examples are shorter than `seq_len`: a batch has examples of similar
            length and is padded to the smallest of these that holds them; see `length_windows`. None pads all to `seq_len`.
        segments: whether a batch has segment ids; False for a model without that input.
        draws: whether a batch has random numbers before `chosen`, for a model that samples tokens: integers in [0, 2²⁴), `(rows,
            length)`, a function of the example, so that they are the same in a resumed run and on another number of devices.
        order: whether a batch has the prediction order before `chosen`, see `factorisation_order`; also a function of the example.
        packed: whether a row holds several sequences that do not attend to each other, for a model built with `packed=True`;
            `batch_size` and `max_predictions` count rows. With `next_sentence=None` a sequence is `[CLS] piece [SEP]`, a pass has
            every token once (see `PackedRows`), and `short_seq_prob` is the fraction of full rows that are split into two
            sequences. Otherwise it is a pair as without packing, and a pass has nearly every pair once (see `PackedPairs`).
        first_example: the index, in the endless sequence of passes, of the first example of the first batch.
        start_epoch, repeat, workers, **kwargs: see `EpochBatches`.

    Raises:
        ValueError: an argument is out of range, or an epoch would have no batch.
    """

    def __init__(
        self,
        store,
        batch_size,
        seq_len,
        max_predictions,
        seed=0,
        process_index=0,
        process_count=1,
        steps_per_epoch=None,
        next_sentence="nsp",
        masking="token",
        mask_rate=0.15,
        mask_mask_rate=0.8,
        mask_random_rate=0.1,
        random_next_rate=0.5,
        short_seq_prob=0.1,
        lengths=None,
        start_epoch=0,
        repeat=False,
        workers=0,
        segments=True,
        draws=False,
        order=False,
        packed=False,
        first_example=0,
        **kwargs,
    ):
        super().__init__(start_epoch, repeat, workers, **kwargs)
        special = 2 if next_sentence is None else 3
        _check_one_of("next_sentence", next_sentence, NEXT_SENTENCE)
        _check_one_of("masking", masking, tuple(UNITS))
        _check_rates(
            mask_rate=mask_rate,
            mask_mask_rate=mask_mask_rate,
            mask_random_rate=mask_random_rate,
            random_next_rate=random_next_rate,
            short_seq_prob=short_seq_prob,
            **{"mask_mask_rate + mask_random_rate": mask_mask_rate + mask_random_rate},
        )
        if seq_len < special + 2:
            raise ValueError(f"seq_len must be at least {special + 2}, for {special} special tokens and 2 more; got {seq_len}.")
        if max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1; got {max_predictions}.")
        if packed:
            _check_packed(lengths=lengths, order=order or None)
        if not 0 <= process_index < process_count:
            raise ValueError(f"process_index must be in [0, {process_count}), one of the processes; got {process_index}.")
        if batch_size < 1 or batch_size % process_count:
            raise ValueError(f"batch_size, summed over all processes, must be a multiple of {process_count}; got {batch_size}.")
        for part in getattr(store, "parts", [store]) if next_sentence == "nsp" else ():
            if len(part.document_starts) < 3:
                raise ValueError(
                    f"next_sentence 'nsp' needs a corpus of at least 2 documents; got {len(part.document_starts) - 1}."
                )
        self.store = store
        self.tables = vocabulary_tables(store.vocabulary)
        self.batch_size, self.seq_len, self.max_predictions = batch_size, seq_len, max_predictions
        self.process_index, self.process_count = process_index, process_count
        self.next_sentence, self.packed = next_sentence, packed
        if packed and next_sentence is None:
            self.examples = PackedPieces(store, seq_len, seed, short_seq_prob)
        else:
            rates = random_next_rate, short_seq_prob
            self.examples = SegmentExamples(store, self.tables, seq_len - special, seed, next_sentence, *rates)
            if packed:
                self.examples = PackedPairs(self.examples, seq_len)
        self.masking = {
            "unit": masking,
            "mask_rate": mask_rate,
            "mask_mask_rate": mask_mask_rate,
            "mask_random_rate": mask_random_rate,
        }
        self.steps_per_epoch, self.first_example = steps_per_epoch, first_example
        self.lengths = None if lengths is None else _checked_lengths(lengths, seq_len, special + 2)
        self.segments = segments  # False leaves out the segment ids, for a model without them
        self.draws, self.order = draws, order
        self._window = None, None
        if len(self) < 1:
            count = len(self.examples)
            made = f"a pass has {count} examples" if steps_per_epoch is None else f"steps_per_epoch is {steps_per_epoch}"
            raise ValueError(f"an epoch must have at least one batch of {batch_size} examples; {made}.")

    def __len__(self):
        return len(self.examples) // self.batch_size if self.steps_per_epoch is None else self.steps_per_epoch

    def batch(self, epoch, index):
        """The rows of this process in batch `index` of an epoch, independent of earlier calls.

        Args:
            epoch: an integer from 0.
            index: an integer from 0, below the number of batches per epoch.

        Returns:
            `((tokens, segments, chosen), (labels, next))`, int32: three arrays `(rows, length)`; `(rows, length, 1)`, the tokens
            before masking; and `(rows, 1)`, 1 if the second segment is random, or the segments are swapped. With
            `next_sentence=None`, `((tokens, segments, chosen), labels)`, since the model has one output. With `packed`, the inputs
            end with `numbers`: the column, from 1, in which each token's sequence begins, and 0 at padding, the `Input-Mask` of a
            packed model; and `next` is `(rows, most_sequences(length))`, with zeros after the last pair of a row.
        """
        if self.packed:
            return self._packed_rows(self._positions(epoch, index))
        if self.lengths is None:
            return self._lay_out(*self.examples.at(self._positions(epoch, index)), self.seq_len)
        keys, segments, plan = self._examples_of_window(self._first_of(epoch), index // WINDOW)
        members, length = plan[index % WINDOW]
        members = members[self._share]
        return self._lay_out(keys[members], segments.take(members), length)

    def work(self, batch):
        """The amount of work in a batch: the lengths of its sequences, `(sequences,)`, and the number of positions to predict."""
        if self.packed:
            (*_, predicted, numbers), _ = batch
            return sequence_lengths(numbers), int(predicted.sum())
        (tokens, *_, predicted), _ = batch
        return (tokens != self.tables.pad_id).sum(axis=1), int(predicted.sum())

    @property
    def distinct_pairs(self):
        """About how many different pairs an epoch has, at most those of a pass; 0 for single segments."""
        if self.next_sentence is None:
            return 0
        pairs = len(self.examples.pairs if self.packed else self.examples)
        return round(pairs * min(len(self) * self.batch_size / len(self.examples), 1))

    @property
    def _share(self):
        """The rows of a batch that are for this process."""
        rows = self.batch_size // self.process_count
        return slice(self.process_index * rows, (self.process_index + 1) * rows)

    def _first_of(self, epoch):
        """The position of the first example of an epoch."""
        of_epoch = len(self.examples) if self.steps_per_epoch is None else self.steps_per_epoch * self.batch_size
        return self.first_example + epoch * of_epoch

    def _positions(self, epoch, index):
        """The positions of this process's examples of a batch."""
        return self._first_of(epoch) + index * self.batch_size + np.arange(self.batch_size)[self._share]

    def _packed_rows(self, positions):
        pairs = self.next_sentence is not None
        keys, segments = self.examples.at(positions)
        labels, segment_ids, numbers, content = lay_out_packed(self.store, segments, self.seq_len, self.tables, pairs)
        x, y = self._masked(keys, labels, segment_ids, content)
        return (*x, numbers), ((y, segments.labels.astype("int32")) if pairs else y)

    def _examples_of_window(self, epochs_before, number):
        """The examples of a window of batches, and for each batch the indices of its examples and its length."""
        cached = self._window  # another thread may be in another window
        if cached[0] != (epochs_before, number):
            count = min(len(self) - number * WINDOW, WINDOW)
            positions = epochs_before + number * WINDOW * self.batch_size + np.arange(count * self.batch_size)
            keys, segments = self.examples.at(positions)
            sizes = segments.first_lengths + segments.second_lengths + (2 if self.next_sentence is None else 3)
            plan = length_windows(sizes, self.batch_size, self.lengths, keys[0])
            self._window = cached = (epochs_before, number), (keys, segments, plan)
        return cached[1]

    def _lay_out(self, keys, segments, length):
        pairs = self.next_sentence is not None
        x, y = self._masked(keys, *lay_out(self.store, segments, length, self.tables, pairs))
        return (x, (y, segments.labels[:, None])) if pairs else (x, y)

    def _masked(self, keys, labels, segment_ids, content):
        """The inputs of the model for rows, with some tokens masked, and the labels of the MLM head."""
        masked, predicted = mask_tokens(keys, labels, content, self.tables, self.max_predictions, **self.masking)
        draws = [below(uniform(keys, labels.shape[1], Stream.SAMPLE), 1 << DRAW_BITS).astype("int32")] if self.draws else []
        draws += [factorisation_order(keys, predicted)] if self.order else []
        return (masked, *([segment_ids] if self.segments else []), *draws, predicted), labels[..., None]


def _checked_lengths(lengths, seq_len, minimum):
    lengths = np.unique(np.asarray(lengths, "int64"))
    if not len(lengths) or lengths[0] < minimum or lengths[-1] > seq_len:
        raise ValueError(f"lengths must be from {minimum} to seq_len={seq_len}; got {lengths.tolist()}.")
    return np.union1d(lengths, [seq_len])


def _check_packed(**settings):
    for name, value in settings.items():
        if value is not None:
            raise ValueError(f"{name} must be None or left out for packed rows; got {value!r}.")


def _check_one_of(name, value, values):
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}; got {value!r}.")


def _check_rates(**rates):
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise ValueError(f"{name} must be in [0, 1]; got {rate}.")
