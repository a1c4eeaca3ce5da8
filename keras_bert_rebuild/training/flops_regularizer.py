"""A FLOPS regulariser, which makes vectors over a vocabulary sparse."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FlopsRegularizer(keras.layers.Layer):
    """Returns its inputs, and in training adds the expected number of products of a search with them to the loss.

        FLOPS = Σ_words (mean over texts of weight)²        loss += rate · (queries · FLOPS(queries) + documents · FLOPS(documents))

    The rate grows quadratically with the step, from 0 to 1 after `steps` steps. The step counter is a non-trainable weight.

    Args:
        texts: rows per group: a query followed by its documents.
        queries, documents: the weights of the two terms.
        query_l1: weight of a further term, the mean over queries of the sum of their weights.
        steps: training steps until the rate is 1.

    Input and output shape: `(groups · texts, vocabulary)`.

    Reference: Paria et al., 2020, section 3 (https://arxiv.org/abs/2004.05665); its schedule as in Formal et al., 2021, section 4
    (https://arxiv.org/abs/2107.05720), and the L1 norm of queries as in Lassance and Clinchant, 2022, section 3.2
    (https://arxiv.org/abs/2207.03834).
    """

    def __init__(
        self,
        texts: int,
        queries: float = 5e-5,
        documents: float = 3e-5,
        query_l1: float = 0.0,
        steps: int = 1,
        name: str = "Flops-Regularizer",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.texts, self.steps = int(texts), int(steps)
        self.queries, self.documents, self.query_l1 = float(queries), float(documents), float(query_l1)

    def build(self, input_shape):
        self.step = self.add_weight(shape=(), initializer="zeros", dtype="int32", trainable=False, name="step")
        self.built = True

    def call(self, inputs, training=None):
        if training:
            groups = ops.reshape(inputs, (-1, self.texts, inputs.shape[-1]))
            queries, documents = groups[:, 0], ops.reshape(groups[:, 1:], (-1, inputs.shape[-1]))
            rate = ops.square(ops.minimum(ops.cast(self.step, "float32") / self.steps, 1.0))
            price = self.queries * flops(queries) + self.documents * flops(documents)
            if self.query_l1:
                price = price + self.query_l1 * ops.mean(ops.sum(ops.abs(queries), axis=-1))
            self.add_loss(rate * price)
            self.step.assign_add(1)
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        own = {"texts": self.texts, "queries": self.queries, "documents": self.documents, "query_l1": self.query_l1}
        return {**super().get_config(), **own, "steps": self.steps}


def flops(vectors: Any) -> Any:
    """Σ_words (mean over texts of |weight|)², of vectors `(texts, vocabulary)`."""
    return ops.sum(ops.square(ops.mean(ops.abs(vectors), axis=0)))
