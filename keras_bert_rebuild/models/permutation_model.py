"""The model class of XLNet's pretraining: every token to predict sees those before it in a random order of prediction."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.encoder_blocks import blocks_of
from keras_bert_rebuild.models.named_inputs import ids_of
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.step_plan import TRAIN, RunningStep, StepPlan, in_order, running_step
from keras_bert_rebuild.models.two_streams import check_two_streams, two_streams

ORDER = "Input-Order"


class PermutationModel(PretrainingModel):
    """An XLNet that learns by predicting tokens in random orders; make it with `build_permutation_model`.

        p(token i | the tokens j with order_j < order_i)        order 0: given, seen by all

    Its layers, weights and summary are those of `model`, whose stream of contents every other use runs; here their head reads the
    stream of queries, in a call, too. Tokens to predict stay as they are in the input: the streams hide them.

    Inputs: `Input-Token`; `Input-Segment`; `Input-Order`, 0 at tokens that are given and from 1 the place in the order of those
    that are predicted; `Input-Masked`, 1 where a token is to be predicted. All `(batch, length)`, int32. The label is the tokens.
    Output: `MLM`.

    It has no file of its own: save `model`.

    Reference: Yang et al., 2019, sections 2.2 and 2.3 (https://arxiv.org/abs/1906.08237).
    """

    model: PretrainingModel
    """The same layers as a `PretrainingModel`, without the stream of queries."""

    @functools.cached_property
    def _graph(self):
        return PermutationGraph(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        step = running_step(self)
        plan = self._plan if step is not None and self._plan.changes(step.kind) else StepPlan()
        return in_order(self.output_names, self._graph.outputs(plan, step, inputs, training))

    def get_config(self) -> dict[str, Any]:
        raise ValueError("a PermutationModel has no file of its own: save its part, model.model, or a checkpoint.")


class PermutationGraph(PretrainingGraph):
    """What a step of a `PermutationModel` needs of its graph: its embedding, the two streams and the head.

    Args:
        model: the model.
    """

    def __init__(self, model: PermutationModel) -> None:
        super().__init__(model.model, model)

    def hidden_at(self, positions: Any, plan: StepPlan, step: RunningStep | None, inputs: Any, training: bool | None) -> list[Any]:
        ids = ids_of(self.whole, inputs)
        first, table, *shared = self.embedding([ids[tensor.name] for tensor in self.model.inputs], training=training)
        layers, hidden = check_two_streams(self.model), hidden_by(ids[ORDER])
        remat = plan.remat and step is not None and step.kind == TRAIN
        blocks, start = blocks_of(self.model), [first, *shared]
        return [two_streams(layers, blocks, start, ids, hidden, positions, training, remat), table]


def hidden_by(order: Any) -> Any:
    """What an order hides: from a token all that are predicted at its place or later, `(batch, length, length)`, bool.

    Args:
        order: 0 at tokens that are given, from 1 the place of those that are predicted, `(batch, length)`.
    """
    return ops.logical_and(ops.not_equal(order[:, None, :], 0), order[:, None, :] >= order[:, :, None])


def build_permutation_model(config: BertConfig, seq_len: int | None = None) -> PermutationModel:
    """Build an XLNet with random weights that learns in two streams.

    Args:
        config: an `XLNetConfig` with at least one block.
        seq_len: static length of the inputs, or None for any.

    Returns:
        A `PermutationModel`.

    Raises:
        ValueError: the config is that of another family, or has no block.
    """
    if not config.encoder().embedding.query:
        raise ValueError(f"a model of two streams must be of the family xlnet; got {config.family}.")
    model = build_model(config, ["mlm"], seq_len=seq_len, query_trained=True)
    check_two_streams(model)
    *inputs, masked = model.inputs
    order = keras.Input((seq_len,), dtype="int32", name=ORDER)
    whole = PermutationModel([*inputs, order, masked], model.outputs[0])
    whole.config, whole.model = config, model
    return whole
