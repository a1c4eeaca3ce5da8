"""How well an encoder fills masks in held-out text, compared with a unigram baseline; the same positions for every encoder."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained import from_pretrained
from keras_bert_rebuild.training.compile_model import compile_model

# The mask rate of the score, whatever a model was trained with: losses at other mask rates are not comparable.
MASK_RATE = 0.15
SEQ_LEN = 128
BATCH_SIZE = 32

# Tokens of training text that the unigram baseline is counted from, and tokens read at a time.
COUNTED_TOKENS = 1 << 25
_LOOK = 1 << 18


@dataclass(frozen=True)
class MaskedScore:
    """How well an encoder predicts masked tokens in held-out text."""

    loss: float
    """The mean of −log p(token), in nats."""

    accuracy: float
    """The fraction of the positions whose most probable token is the right one."""

    unigram_loss: float
    """The loss of a unigram model: token frequencies of the training text, one added to each count, without context."""

    unigram_accuracy: float
    """The accuracy of always answering with the most frequent token."""

    positions: int
    """The number of masked tokens."""


def score_batches(held_out: Any, seq_len: int = SEQ_LEN, max_batches: int | None = None, **changes: Any) -> Any:
    """The batches that the score is computed on: single segments in which 15 % of the tokens are to predict.

    Of these, 80 % are `[MASK]`, 10 % a random token and 10 % unchanged, as in BERT. The batches depend only on the held-out text,
    the vocabulary and the length.

    Args:
        held_out: a `TokenCorpus` that was not trained on.
        seq_len: tokens of an example, special ones included.
        max_batches: maximum number of batches of 32 examples; None for the whole text.
        **changes: further arguments of `PretrainingBatches`.

    Reference: Devlin et al., 2019, section 3.1.
    """
    examples = {"next_sentence": None, "mask_rate": MASK_RATE, "short_seq_prob": 0.0, "seed": 0, **changes}
    predictions = int(np.ceil(MASK_RATE * seq_len)) + 1
    rows = min(BATCH_SIZE, max(_examples_of(held_out, seq_len, predictions, examples), 1))
    batches = pretraining_batches(held_out, rows, seq_len, predictions, **examples)
    if max_batches is not None and len(batches) > max_batches:
        batches.steps_per_epoch = max_batches
    return batches


def masked_score(
    model: str | os.PathLike[str] | BertModel,
    held_out: Any,
    train: Any,
    seq_len: int = SEQ_LEN,
    max_batches: int | None = None,
) -> MaskedScore:
    """Score an encoder on held-out text.

    Args:
        model: a checkpoint with an MLM head, anything that `from_pretrained` reads, of which other heads are ignored; or a model
            whose only head is the MLM head, which is recompiled.
        held_out: a `TokenCorpus` that was not trained on, in the ids of the model.
        train: the `TokenCorpus` that the unigram baseline is counted from.
        seq_len: tokens of an example, special ones included.
        max_batches: maximum number of batches of 32 examples; None for the whole text.

    Returns:
        A `MaskedScore`.
    """
    encoder = model if isinstance(model, BertModel) else from_pretrained(model, heads=("mlm",))
    length = min(seq_len, encoder.config.max_length)
    batches = score_batches(held_out, length, max_batches, segments=encoder.config.type_vocab_size > 0)
    compile_model(encoder, max_predictions=batches.max_predictions)
    logs = encoder.evaluate(batches, verbose=0, return_dict=True)
    labels = _labels(batches)
    unigram = unigram_of(train)
    return MaskedScore(
        loss=float(logs["loss"]),
        accuracy=float(logs["accuracy"]),
        unigram_loss=float(-unigram[labels].mean()),
        unigram_accuracy=float((labels == unigram.argmax()).mean()),
        positions=len(labels),
    )


def unigram_of(corpus: Any) -> np.ndarray:
    """The log probability of every token by its count in a corpus plus one (Laplace smoothing), `(vocabulary,)`.

    In a corpus of more than 2²⁵ tokens, about that many are counted, in equally spaced spans.
    """
    counts = np.ones(len(corpus.vocabulary))
    looks = -(-corpus.num_tokens // _LOOK)
    every = max(looks * _LOOK // COUNTED_TOKENS, 1)
    for look in range(0, looks, every):
        positions = np.arange(look * _LOOK, min((look + 1) * _LOOK, corpus.num_tokens))
        counts += np.bincount(corpus.ids_at(positions), minlength=len(counts))
    return np.log(counts / counts.sum())


def _examples_of(held_out, seq_len, predictions, examples):
    """The number of examples in a pass over a text."""
    return len(pretraining_batches(held_out, 1, seq_len, predictions, **examples))


def _labels(batches):
    """The tokens at all positions to predict."""
    parts = []
    for index in range(len(batches)):
        (*_, predicted), labels = batches.batch(0, index)
        parts.append(labels[..., 0][predicted == 1])
    return np.concatenate(parts)
