"""The model class of XLNet's pretraining: every token to predict attends to those before it in a random prediction order."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.by_head import in_order
from keras_bert_rebuild.models.named_inputs import ids_of
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import RunningStep, running_step
from keras_bert_rebuild.models.step_plan import StepPlan
from keras_bert_rebuild.models.two_streams import two_stream_view, two_streams

ORDER = "Input-Order"


class PermutationModel(PretrainingModel):
    """An XLNet that learns by predicting tokens in random orders; create it with `build_permutation_model`.

        p(token i | the tokens j with order_j < order_i)        order 0: given, visible to all

    Its layers, weights and summary are those of `model`. Every other use runs the content stream; here the head reads the query
    stream, also in a call. Tokens to predict are unchanged in the input: the streams hide them.

    Inputs: `Input-Token`; `Input-Segment`; `Input-Order`, 0 at given tokens, at others the rank in the prediction order, from 1;
    `Input-Masked`, 1 at tokens to predict. All `(batch, length)`, int32. The labels are the tokens. Output: `MLM`.

    It cannot be saved itself: save `model`.

    Reference: Yang et al., 2019, sections 2.2 and 2.3 (https://arxiv.org/abs/1906.08237).
    """

    model: PretrainingModel
    """The same layers as a `PretrainingModel`, without the query stream."""

    @functools.cached_property
    def _graph(self):
        return PermutationGraph(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        step = running_step(self)
        plan = self._plan if step is not None and self._plan.changes(step.kind) else StepPlan()
        return in_order(self.output_names, self._graph.outputs(plan, step, inputs, training))

    def get_config(self) -> dict[str, Any]:
        raise ValueError("a PermutationModel cannot be saved itself: save its part, model.model, or a checkpoint.")


class PermutationGraph(PretrainingGraph):
    """The parts of the graph that a step of a `PermutationModel` runs: embedding, two streams and head.

    Args:
        model: the model.
    """

    def __init__(self, model: PermutationModel) -> None:
        super().__init__(model.model, model)

    def hidden_at(self, positions: Any, plan: StepPlan, step: RunningStep | None, inputs: Any, training: bool | None) -> list[Any]:
        ids = ids_of(self.whole, inputs)
        start = self.view.embed(ids, training)
        with executing(*self.execution_of(plan, step).rules):
            return [two_streams(self.view, start, hidden_by(ids[ORDER]), positions, training), start.table]


def hidden_by(order: Any) -> Any:
    """Which tokens an order hides from each token: those of equal or higher rank, `(batch, length, length)`, bool.

    Args:
        order: 0 at given tokens, and the rank in the prediction order, from 1, at others, `(batch, length)`.
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
        ValueError: the config belongs to another family, or has no block.
    """
    if not config.encoder().embedding.query:
        raise ValueError(f"a two-stream model must be of the family xlnet; got {config.family}.")
    model = build_model(config, ["mlm"], seq_len=seq_len, query_trained=True)
    two_stream_view(model)
    *inputs, masked = model.inputs
    order = keras.Input((seq_len,), dtype="int32", name=ORDER)
    whole = PermutationModel([*inputs, order, masked], model.outputs[0])
    whole.config, whole.model = config, model
    return whole
