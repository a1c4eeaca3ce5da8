"""keras_bert's function for pretraining batches."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_PAD, TOKEN_SEP, TOKEN_UNK, get_base_dict


def gen_batch_inputs(
    sentence_pairs: Iterable[Sequence[Sequence[str]]],
    token_dict: Mapping[str, int],
    token_list: Sequence[str],
    seq_len: int = 512,
    mask_rate: float = 0.15,
    mask_mask_rate: float = 0.8,
    mask_random_rate: float = 0.1,
    swap_sentence_rate: float = 0.5,
    force_mask: bool = True,
) -> tuple[Any, Any]:
    """Make one batch for masked language modelling and next-sentence prediction from pairs of sentences.

    Uses NumPy's global generator in keras_bert's order: the same `numpy.random.seed` gives the same batch. Pairs are truncated to
    `seq_len`; segment ids are 1 after the first sentence, padding included.

    Args:
        sentence_pairs: pairs of lists of tokens; the second follows the first.
        token_dict: token to id; padding is '' or '[PAD]'.
        token_list: tokens to draw random replacements from.
        seq_len: length of the batch.
        mask_rate: rate at which tokens are selected for prediction.
        mask_mask_rate: rate, among the selected, of those replaced by `[MASK]`.
        mask_random_rate: rate, among the selected, of those replaced by a random token; the rest are unchanged.
        swap_sentence_rate: rate at which pairs are selected to exchange their second sentences with each other.
        force_mask: select position 1, without replacing its token, if nothing was selected.

    Returns:
        `(inputs, outputs)`: tokens, segments and selected positions, integers `(batch, seq_len)`; the tokens to predict
        `(batch, seq_len, 1)`; and `(batch, 1)`, 1 if the second sentence is from another pair. Tuples on the TensorFlow backend,
        whose `fit` treats lists as arrays; otherwise lists.

    Raises:
        ValueError: there are no pairs, one is not a pair, a sentence is a string, `seq_len` is below 2, or there are no tokens for
            replacements.
    """
    sentence_pairs = [_checked(i, pair) for i, pair in enumerate(sentence_pairs)]
    if not sentence_pairs:
        raise ValueError("sentence_pairs must have at least one pair; got none.")
    if seq_len < 2:
        raise ValueError(f"seq_len must be at least 2, for [CLS] and one more token; got {seq_len}.")
    base = {*get_base_dict(), GOOGLE_PAD}
    replacements_exist = any(token not in base for token in token_list)
    unknown = token_dict[TOKEN_UNK]
    pad = token_dict.get(TOKEN_PAD, token_dict.get(GOOGLE_PAD, 0))
    second_of = _swapped(len(sentence_pairs), swap_sentence_rate)

    shape = (len(sentence_pairs), seq_len)
    inputs, targets, masked = np.full(shape, pad), np.full(shape, pad), np.zeros(shape, int)
    segments = np.zeros(shape, int)
    for i, (first, _) in enumerate(sentence_pairs):
        second = sentence_pairs[second_of.get(i, i)][1]
        tokens = [TOKEN_CLS, *first, TOKEN_SEP, *second, TOKEN_SEP][:seq_len]
        segments[i, len(first) + 2 :] = 1
        for j, token in enumerate(tokens):
            inputs[i, j] = targets[i, j] = token_dict.get(token, unknown)
            if token in base or not np.random.random() < mask_rate:
                continue
            masked[i, j] = 1
            r = np.random.random()
            if r < mask_mask_rate:
                inputs[i, j] = token_dict[TOKEN_MASK]
            elif r < mask_mask_rate + mask_random_rate:
                if not replacements_exist:
                    raise ValueError("token_list must have a token that is not special, for random replacements; got none.")
                inputs[i, j] = token_dict[_random_token(token_list, base)]
        if force_mask and not masked[i].any():
            masked[i, 1] = 1
    swapped = np.array([[float(second_of.get(i, i) != i)] for i in range(len(sentence_pairs))])
    batch = tuple if traits.takes_batches_as_tuples_only() else list
    return batch((inputs, segments, masked)), batch((targets[..., None], swapped))


def _checked(index, pair):
    pair = list(pair)
    if len(pair) != 2:
        raise ValueError(f"sentence_pairs[{index}] must have two sentences; got {len(pair)}.")
    first, second = pair
    for sentence in (first, second):
        if isinstance(sentence, str):
            raise ValueError(f"sentence_pairs[{index}] must have lists of tokens; got the string {sentence[:40]!r}: split it.")
    return list(first), list(second)


def _swapped(count, rate):
    """Which pair each selected index takes its second sentence from."""
    if rate <= 0:
        return {}
    drawn = [i for i in range(count) if np.random.random() < rate]
    shuffled = drawn[:]
    np.random.shuffle(shuffled)
    return dict(zip(drawn, shuffled, strict=True))


def _random_token(token_list, base):
    while True:
        token = token_list[np.random.randint(0, len(token_list))]
        if token not in base:
            return token
