"""The masked-word task."""

import numpy as np


def mask_tokens(rng, ids, maskable, vocab_ids, mask_id, max_predictions, mask_rate=0.15, mask_mask_rate=0.8, mask_random_rate=0.1):
    """Choose positions to predict and replace their tokens.

    Of every example `mask_rate` of its maskable positions are chosen, rounded, at least one and at most `max_predictions`.

    Args:
        rng: a `numpy.random.Generator`.
        ids: token ids `(batch, length)`.
        maskable: True where a token may be chosen, `(batch, length)`: not at special tokens and padding.
        vocab_ids: ids to draw random replacements from.
        mask_id: the id of `[MASK]`.
        max_predictions: positions of an example at the most.
        mask_rate: part of the maskable positions, in [0, 1].
        mask_mask_rate: of the chosen ones, rate replaced with `[MASK]`.
        mask_random_rate: of the chosen ones, rate replaced with a random token; the others stay.

    Returns:
        The ids with replacements and the chosen positions, 1 or 0, both `(batch, length)`.

    Reference: Devlin et al., 2019, section 3.1 and appendix A.1; `create_masked_lm_predictions` of google-research/bert.
    """
    available = maskable.sum(axis=1)
    wanted = np.minimum(np.minimum(np.maximum(np.rint(available * mask_rate), 1), max_predictions), available).astype(int)
    # The `wanted` smallest of random keys; what may not be chosen sorts behind.
    keys = np.where(maskable, rng.random(ids.shape), 2.0)
    rank = keys.argsort(axis=1).argsort(axis=1)
    chosen = rank < wanted[:, None]
    how = rng.random(ids.shape)
    random_ids = vocab_ids[rng.integers(0, len(vocab_ids), ids.shape)]
    replaced = np.where(how < mask_mask_rate, mask_id, np.where(how < mask_mask_rate + mask_random_rate, random_ids, ids))
    return np.where(chosen, replaced, ids), chosen.astype("int32")
