"""Attribution by attention: attention rollout and attention flow."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.interpret.maximum_flow import maximum_flow
from keras_bert_rebuild.interpret.method import Method, Scores
from keras_bert_rebuild.interpret.subject import SubjectFunction


def mixed_attention(function: SubjectFunction) -> np.ndarray:
    """The attention of every layer, averaged over heads and then with the identity, for the residual connection: `(layers, rows,
    length, length)`; the rows of queries sum to 1 at tokens.

    Reference: Abnar and Zuidema, 2020, section 3 (https://arxiv.org/abs/2005.00928).
    """
    maps = attention_maps(function.subject.model, dict(function.subject.inputs))
    mean = maps.probabilities.mean(axis=2).astype("float64")
    return 0.5 * mean + 0.5 * np.eye(mean.shape[-1])


@dataclass(frozen=True)
class AttentionRollout(Method):
    """The product of the mean attention of all layers, read at the tokens that the answer is read from; independent of the target.

        Ã = ½ mean over heads of attention + ½ identity        scores = reads · Ã_L · ... · Ã_1

    The scores sum to 1, special tokens included.

    Reference: Abnar and Zuidema, 2020, section 3.1 (https://arxiv.org/abs/2005.00928).
    """

    name: ClassVar[str] = "rollout"
    title: ClassVar[str] = "attention rollout"
    reads_baseline: ClassVar[bool] = False

    def scores(self, function: SubjectFunction) -> Scores:
        relevance = function.subject.reads.astype("float64")
        for layer in mixed_attention(function)[::-1]:
            relevance = np.einsum("rq,rqk->rk", relevance, layer)
        return Scores(relevance, function.value(function.vectors))


@dataclass(frozen=True)
class AttentionFlow(Method):
    """The maximum flow from the tokens that the answer is read from to a token, with the mean attention of layers as capacities.

    Every token has its own maximum flow, so the scores are divided by their sum.

    Reference: Abnar and Zuidema, 2020, section 3.2 (https://arxiv.org/abs/2005.00928).
    """

    name: ClassVar[str] = "flow"
    title: ClassVar[str] = "attention flow"
    reads_baseline: ClassVar[bool] = False

    def scores(self, function: SubjectFunction) -> Scores:
        layers, reads = mixed_attention(function), function.subject.reads.astype("float64")
        found = np.zeros(reads.shape)
        for row, ids in enumerate(function.subject.tokens.ids):
            if reads[row].any():
                real = np.arange(len(ids))
                found[row, real] = layered_flows(layers[:, row][:, real][:, :, real], reads[row, real])
        return Scores(found / found.sum(), function.value(function.vectors))


def layered_flows(layers: np.ndarray, reads: np.ndarray) -> np.ndarray:
    """The maximum flow to every token of the first layer, `(length,)`.

    Args:
        layers: capacities of the edges from queries to keys, `(layers, length, length)`, first layer first.
        reads: capacities of the edges from the source to the tokens of the last block, `(length,)`.
    """
    count, length, _ = layers.shape
    capacity = np.zeros(((count + 1) * length + 1,) * 2)
    for number, layer in enumerate(layers):  # nodes of the inputs first, the source last
        above, below = (number + 1) * length, number * length
        capacity[above : above + length, below : below + length] = layer
    capacity[-1, count * length : -1] = reads
    return np.array([maximum_flow(capacity, len(capacity) - 1, token) for token in range(length)])
