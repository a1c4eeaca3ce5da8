"""The result of the logit lens: a frozen record, and its JSON form."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LogitLens:
    """The predictions of the MLM head after the embedding and after every block; from `logit_lens`."""

    tokens: tuple[str, ...]
    """The tokens of the text, special ones included."""

    words: tuple[str, ...]
    """The characters of the text for every token, "" for special tokens that are not in it."""

    masked: tuple[bool, ...]
    """Which tokens are masks."""

    depths: tuple[str, ...]
    """"embedding", "block 1" and so on, along the first axis of the arrays."""

    top_tokens: tuple[tuple[tuple[str, ...], ...], ...]
    """The most probable tokens for each depth and position, `(depths, length, top_k)`."""

    final_tokens: tuple[str, ...]
    """The prediction of the model at every position."""

    true_tokens: tuple[str | None, ...]
    """The true token at every position; None at masks without a known one."""

    top_ids: np.ndarray
    """The ids of `top_tokens`, `(depths, length, top_k)`, int32."""

    top_probabilities: np.ndarray
    """The probabilities of `top_tokens`, `(depths, length, top_k)`, float32."""

    final_ranks: np.ndarray
    """The rank of the model's prediction at every depth, 1 for the most probable token, `(depths, length)`, int32."""

    final_probabilities: np.ndarray
    """Its probability, `(depths, length)`, float32."""

    true_ranks: np.ndarray
    """The rank of the true token; 0 if that is unknown, `(depths, length)`, int32."""

    true_probabilities: np.ndarray
    """Its probability; NaN if the true token is unknown, `(depths, length)`, float32."""

    divergences: np.ndarray
    """The KL divergence of the prediction at a depth from that of the model, in nats: Σ p log(p / q), with p of the last block and
    q of this one, `(depths, length)`, float32."""

    def positions(self) -> tuple[int, ...]:
        """The positions to show first: the masks, or without masks the tokens of the text."""
        masks = [i for i, masked in enumerate(self.masked) if masked]
        return tuple(masks or (i for i, word in enumerate(self.words) if word))

    def settled(self, position: int) -> int:
        """The first depth from which all predictions equal that of the last block."""
        other = np.flatnonzero(self.final_ranks[:, position] > 1)
        return int(other[-1]) + 1 if len(other) else 0

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; null if the true token is unknown."""
        known = [token is not None for token in self.true_tokens]
        only = lambda rows: [[value if ok else None for value, ok in zip(row, known, strict=True)] for row in rows]  # noqa: E731
        return {
            "tokens": list(self.tokens),
            "words": list(self.words),
            "masked": list(self.masked),
            "depths": list(self.depths),
            "top": [
                [
                    [[token, probability] for token, probability in zip(*of_position, strict=True)]
                    for of_position in zip(tokens, probabilities, strict=True)
                ]
                for tokens, probabilities in zip(self.top_tokens, rounded(self.top_probabilities), strict=True)
            ],
            "final_tokens": list(self.final_tokens),
            "final_ranks": self.final_ranks.tolist(),
            "final_probabilities": rounded(self.final_probabilities),
            "true_tokens": list(self.true_tokens),
            "true_ranks": only(self.true_ranks.tolist()),
            "true_probabilities": only(rounded(np.nan_to_num(self.true_probabilities))),
            "divergences": rounded(self.divergences),
        }

    def __str__(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False)


def rounded(array: Any) -> Any:
    """An array as lists of numbers with four significant digits."""
    values = np.asarray(array, "float64")
    scale = 10.0 ** (3 - np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values)))))
    return _plain(np.round(values * scale) / scale)


def _plain(values):
    return [_plain(row) for row in values] if values.ndim else float(f"{values:.4g}")
