"""Attribution by attention: attention rollout."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.interpret.method import Method, Scores
from keras_bert_rebuild.interpret.subject import SubjectFunction


@dataclass(frozen=True)
class AttentionRollout(Method):
    """The product of the mean attention of all layers, read at the tokens that the answer is read from; independent of the target.

        Ã = ½ mean over heads of attention + ½ identity        scores = reads · Ã_L · ... · Ã_1

    The identity is for the residual connection. The scores sum to 1, special tokens included.

    Reference: Abnar and Zuidema, 2020, sections 3 and 3.1 (https://arxiv.org/abs/2005.00928).
    """

    name: ClassVar[str] = "rollout"
    title: ClassVar[str] = "attention rollout"
    reads_baseline: ClassVar[bool] = False

    def scores(self, function: SubjectFunction) -> Scores:
        maps = attention_maps(function.subject.model, dict(function.subject.inputs))
        mean = maps.probabilities.mean(axis=2).astype("float64")  # (layers, rows, query, key)
        mixed = 0.5 * mean + 0.5 * np.eye(mean.shape[-1])
        relevance = function.subject.reads.astype("float64")
        for layer in mixed[::-1]:
            relevance = np.einsum("rq,rqk->rk", relevance, layer)
        return Scores(relevance, function.value(function.vectors))
