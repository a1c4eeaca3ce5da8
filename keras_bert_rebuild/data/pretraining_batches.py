"""Pretraining batches as a pure function of corpus, seed and index."""

import functools
from dataclasses import dataclass

import keras
import numpy as np

from keras_bert_rebuild.data.masking import mask_tokens


@dataclass(frozen=True, kw_only=True)
class BatchRecipe:
    """How a batch is made."""

    batch_size: int
    """Examples of a batch."""

    seq_len: int
    """Length of every example, padded."""

    max_predictions: int
    """Positions to predict of an example, at the most."""

    pad_id: int
    """Id of padding, 0 unless the model has a padding mask."""

    cls_id: int
    """Id of `[CLS]`."""

    sep_id: int
    """Id of `[SEP]`."""

    mask_id: int
    """Id of `[MASK]`."""

    vocab_ids: np.ndarray
    """Ids of random replacements: those that are not special."""

    random_next_rate: float = 0.5
    """Rate of pairs whose second passage is one of another document."""


def make_batch(corpus, recipe, seed, index):
    """Batch number `index` of the endless sequence that `seed` stands for.

    Every pass over the corpus goes through its passages in another order; the order and every draw come from the seed and the
    number alone, so any batch can be made without those before it.

    Args:
        corpus: a `TokenCorpus`.
        recipe: a `BatchRecipe`.
        seed: a number.
        index: number of the batch, from 0.

    Returns:
        `((tokens, segments, chosen), (labels, next))`: int32 `(batch, length)` three times, labels `(batch, length, 1)`, and
        `(batch, 1)`, 1 where the second passage is a random one.
    """
    rng = np.random.default_rng((seed, index))
    shape = (recipe.batch_size, recipe.seq_len)
    ids = np.full(shape, recipe.pad_id, "int32")
    segments = np.zeros(shape, "int32")
    maskable = np.zeros(shape, bool)
    is_random = np.zeros((recipe.batch_size, 1), "int32")
    for row, first in enumerate(_passages(corpus, recipe.batch_size, seed, index)):
        second, is_random[row] = _choose_second(rng, corpus, recipe, first)
        a, b = _truncate(corpus.passage(first), corpus.passage(second), recipe.seq_len - 3)
        tokens = np.concatenate([[recipe.cls_id], a, [recipe.sep_id], b, [recipe.sep_id]])
        ids[row, : len(tokens)] = tokens
        segments[row, len(a) + 2 : len(tokens)] = 1
        maskable[row, 1 : len(tokens) - 1] = True
        maskable[row, len(a) + 1] = False
    masked_ids, chosen = mask_tokens(rng, ids, maskable, recipe.vocab_ids, recipe.mask_id, recipe.max_predictions)
    return (masked_ids.astype("int32"), segments, chosen), (ids[..., None], is_random)


class PretrainingBatches(keras.utils.PyDataset):
    """The batches `start` to `start + steps` of `make_batch`, for `fit` and `evaluate`.

    Args:
        corpus: a `TokenCorpus`.
        recipe: a `BatchRecipe`.
        seed: a number.
        steps: batches of an epoch.
        start: number of the first batch.
        repeat: every epoch has the same batches; otherwise it goes on where the last one ended.
    """

    def __init__(self, corpus, recipe, seed, steps, start=0, repeat=False, **kwargs):
        super().__init__(**kwargs)
        if len(corpus) < 2:
            raise ValueError(f"a corpus for pairs of passages must hold at least 2; got {len(corpus)}.")
        self.corpus = corpus
        self.recipe = recipe
        self.seed = seed
        self.steps = steps
        self.start = start
        self.repeat = repeat

    def __len__(self):
        return self.steps

    def __getitem__(self, index):
        return make_batch(self.corpus, self.recipe, self.seed, self.start + index)

    def on_epoch_end(self):
        if not self.repeat:
            self.start += self.steps


def _passages(corpus, batch_size, seed, index):
    """The passages whose turn it is: those of positions index · batch_size and on, pass after pass over the corpus."""
    positions = range(index * batch_size, (index + 1) * batch_size)
    return [int(_order(len(corpus), seed, position // len(corpus))[position % len(corpus)]) for position in positions]


@functools.lru_cache(maxsize=2)
def _order(count, seed, number):
    """The order of pass `number` over the corpus; kept, since the next batch wants it again."""
    return np.random.default_rng((seed, number, count)).permutation(count)


def _choose_second(rng, corpus, recipe, first):
    """The next passage, or one of another document; a passage that ends its document can only take the latter."""
    document = corpus.documents[first]
    has_next = first + 1 < len(corpus) and corpus.documents[first + 1] == document
    if has_next and rng.random() >= recipe.random_next_rate:
        return first + 1, 0
    for _ in range(100):
        second = int(rng.integers(len(corpus)))
        if corpus.documents[second] != document:
            break
    return second, 1


def _truncate(a, b, length):
    """Cut the longer of two passages, both where they are as long, until they fit."""
    cut_a = max(min(len(a), length - min(len(b), length // 2)), 0)
    return a[:cut_a], b[: length - cut_a]
