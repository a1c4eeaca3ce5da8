"""The model class of pretraining, whose losses get logits, at the masked positions only."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.layers import MaskedConv1D
from keras_bert_rebuild.layers.masks import at_positions, slots_of
from keras_bert_rebuild.models.batch_check import CLASSES, check_labels
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.chunked_cross_entropy import LABEL_COLUMN
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.loss_protocols import takes_logits
from keras_bert_rebuild.models.masked_positions import flat_labels, weights_at
from keras_bert_rebuild.models.named_tensors import by_head, in_order
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.running_step import TEST, TRAIN, running_step
from keras_bert_rebuild.models.step_plan import BLOCKS, FEED_FORWARD, LOGITS, PROBABILITIES, StepPlan, as_needed, log_of

# Heads that read labelled tokens or the first one of a sequence.
TOKEN_HEADS = {"MLM", "NSP", "SOP"}
# Keras's layers in graphs of ours, which compute each token by itself.
OF_TOKENS = (keras.layers.InputLayer, keras.layers.Dense)


def reads_padding(layer: keras.layers.Layer) -> bool:
    """Whether outputs of a layer at tokens may depend on its inputs at padding: of convolutions, and of users' layers."""
    is_ours = type(layer) in OF_TOKENS or type(layer).__module__.startswith("keras_bert_rebuild.")
    return not is_ours or isinstance(layer, MaskedConv1D)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingModel(BertModel):
    """A model with an MLM head and possibly a second one: next sentence in `get_model`, sentence order in ALBERT, none in RoBERTa.

    A call and `predict` return probabilities. In a training or test step, each head whose compiled loss has a true attribute
    `takes_logits` returns logits; and if the loss of the MLM head has a number `max_predictions`, that head runs only at that many
    gathered positions per example, since the product with the vocabulary is most of its work and 85 % would be wasted. Labels and
    weights are aligned, and Keras does the rest: `sample_weight`, loss weights, regularisers and metrics. Metrics get
    probabilities, or logits if all metrics of a head have a true attribute `takes_logits` or are accuracies.

    If the loss of the MLM head has a number `chunk`, the head returns two columns in such a step, `label_log_probabilities`, and
    the label of each row is `LABEL_COLUMN`: the logits of all positions are never in memory at once.

    All of this is determined by `compile`.

    An example with more positions to predict than `max_predictions` raises a `ValueError` in the host check, or makes the loss NaN
    if it was not checked.
    """

    remat = False
    """Whether a training step stores only the input of every encoder block and recomputes the rest in the backward pass: less
    memory, a third more computation. Saved with the model; set it before `compile`."""

    not_in_graph = ("config", "remat")

    _plan = StepPlan()

    @functools.cached_property
    def _graph(self):
        return PretrainingGraph(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        step = running_step(self)
        if step is None or not self._plan.changes(step.kind):
            return super().call(inputs, training=training, mask=mask, **kwargs)
        return in_order(self.output_names, self._graph.outputs(self._plan, step, inputs, training))

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        plan = StepPlan.from_compiled(self.output_names, loss, (metrics, weighted_metrics), self.remat)
        if plan.remat:
            EncoderView(self)  # raises now, not in a step, if the model has no config
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs)
        self._plan = dataclasses.replace(plan, without_padding=self._without_padding())

    def _without_padding(self):
        """What steps may leave padding out of: a processor takes any number of rows, and only some tokens are read."""
        only_tokens = type(self) is PretrainingModel and not set(self.output_names) - TOKEN_HEADS
        if not only_tokens or any(map(reads_padding, self.layers)) or self.jit_compile or traits.runs_on_accelerator():
            return None
        return BLOCKS if self.config is not None and self._graph.view.runs_on_tokens_alone else FEED_FORWARD

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **({"remat": True} if self.remat else {})}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
        model = super().from_config({key: value for key, value in config.items() if key != "remat"}, custom_objects=custom_objects)
        model.remat = config.get("remat", False)
        return model

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self._plan.gives_logits:
            y_pred = by_head(self.output_names, y_pred)
            if not self._in_planned_step():  # probabilities from a call of the model: softmax(log p) = p
                y_pred = {head.name: log_of(p) if head.takes_logits else p for head, p in self._planned(y_pred)}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._plan.gives_logits:
            y_pred = self._planned(by_head(self.output_names, y_pred))
            y_pred = {head.name: self._for_metrics(head, output) for head, output in y_pred}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight, flat=True)
        elif traits.loses_masks_of_outputs() and x is not None:
            y_pred = self._with_masks(x, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _answer_of(self, head, loss):
        return LOGITS if takes_logits(loss) else super()._answer_of(head, loss)

    def _labels_for_call(self, batch):
        if self._plan.chunk is None:
            return None
        return by_head(self.output_names, keras.utils.unpack_x_y_sample_weight(batch)[1])["MLM"]

    def _check_batch(self, batch):
        batch = super()._check_batch(batch)
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        if y is not None:
            labels = by_head(self.output_names, y)
            check_labels(self._graph, self._plan, x, {head.name: label for head, label in self._planned(labels) if head.takes_ids})
        return batch

    def _in_planned_step(self):
        """Whether this thread runs a step whose outputs follow the plan."""
        step = running_step(self)
        return step is not None and step.kind in (TRAIN, TEST)

    def _planned(self, values):
        """Pairs of a head of the plan and its value."""
        return [(head, values[head.name]) for head in self._plan.heads]

    def _for_metrics(self, head, output):
        """The output of a head in the form that its metrics need."""
        in_step = self._in_planned_step()
        if in_step and self._plan.chunk is not None and head.name == "MLM":
            return output
        return as_needed(output, LOGITS if in_step and head.takes_logits else PROBABILITIES, head.metrics)

    def _with_masks(self, x, y_pred):
        """The outputs of a call of the model with the masks that it gave them."""
        outputs, sequences = by_head(self.output_names, y_pred), self._graph.sequences(x)
        counts = {"MLM": self._graph.labelled(x)} | ({} if sequences is None else dict.fromkeys(CLASSES, sequences))
        masked = {head: self._graph.masked(outputs[head], count) for head, count in counts.items() if head in outputs}
        return in_order(self.output_names, {**outputs, **masked})

    def _aligned(self, x, y, y_pred, sample_weight, flat=False):
        """Labels, predictions and weights in the order of the outputs; of the MLM head `(batch, slots)`, or flat `(positions,)`;
        of heads on the pairs of packed rows always flat."""
        heads, in_step = self.output_names, self._in_planned_step()
        if x is None:
            return y, in_order(heads, y_pred), sample_weight
        labels, weights = by_head(heads, y), by_head(heads, sample_weight)
        everywhere = self._graph.labelled(x)
        positions, labelled = slots_of(everywhere, self._plan.max_predictions if in_step else None)
        for head, label in self._planned(labels):
            if head.takes_ids and head.name == "MLM":
                labels["MLM"] = ops.reshape(label, ops.shape(everywhere))
            elif head.takes_ids and head.name in CLASSES:
                labels[head.name] = ops.reshape(label, ops.shape(y_pred[head.name])[:-1])
        mlm, weight = at_positions(labels["MLM"], positions), weights_at(weights["MLM"], everywhere, positions)
        if in_step and self._plan.chunk is not None:
            mlm = ops.full_like(mlm, LABEL_COLUMN)
        if flat:
            mlm, masked, weight = flat_labels(mlm, y_pred["MLM"], labelled, weight)
        else:
            masked = self._graph.masked(y_pred["MLM"], labelled)
        labels, y_pred, weights = {**labels, "MLM": mlm}, {**y_pred, "MLM": masked}, {**weights, "MLM": weight}
        sequences = self._graph.sequences(x)
        for head in CLASSES.keys() & set(heads) if sequences is not None else ():
            labels[head], y_pred[head], weights[head] = flat_labels(labels[head], y_pred[head], sequences, weights[head])
        return in_order(heads, labels), in_order(heads, y_pred), None if sample_weight is None else in_order(heads, weights)


# Legacy .h5 files name the class without its package.
keras.saving.get_custom_objects()["PretrainingModel"] = PretrainingModel
