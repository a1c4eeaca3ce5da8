"""The model class of pretraining: its losses see logits, at the masked positions only."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers import Dense
from keras_bert_rebuild.models.bert_model import BertModel, concrete
from keras_bert_rebuild.models.chunked_cross_entropy import LABEL_COLUMN, label_log_probabilities
from keras_bert_rebuild.models.flat_labels import flat_labels
from keras_bert_rebuild.models.host_check import IdRule, check_ids, check_predictions, takes_ids
from keras_bert_rebuild.models.label_slots import labelled_first
from keras_bert_rebuild.models.metric_needs import LOG_PROBABILITIES, LOGITS, PROBABILITIES, check_needs_no_vocabulary, needs_of
from keras_bert_rebuild.models.rematerialised import blocks_of, run_rematerialised

# What the labels of a head mean.
CLASSES = {"NSP": "0 the next sentence, 1 a random one", "SOP": "0 in their order, 1 swapped"}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingModel(BertModel):
    """BERT with an MLM head and what stands beside it: next sentence in `get_model`, sentence order in ALBERT, nothing in RoBERTa.

    Called or asked to predict, it answers with probabilities. In a training or test step, each head whose compiled loss has a true
    attribute `takes_logits` answers with logits, and if the loss of the MLM head has a number `max_predictions`, that head runs
    only at so many gathered positions per example: the product with the vocabulary is most of the work, and 85 % of it would be
    thrown away. Labels and weights are aligned, and the rest is Keras: `sample_weight`, loss weights, regularisers and metrics.
    Metrics are given probabilities, or logits if all of a head have a true attribute `takes_logits` or are accuracies.

    If the loss of the MLM head has a number `chunk`, the head answers in such a step with two columns, `label_log_probabilities`,
    and the label of each row is `LABEL_COLUMN`: the logits of all positions are never held at once.

    An example with more positions to predict than `max_predictions` is a `ValueError` from the host check, and makes the loss NaN
    where no check came before.
    """

    remat = False
    """Whether a training step keeps only the input of every encoder block and computes what is in it again in the backward pass:
    less memory, a third more work. Saved with the model; to be set before it is compiled."""

    def call(self, inputs, training=None, mask=None, **kwargs):
        if not self._computes_logits() and not self._rematerialises():
            return super().call(inputs, training=training, mask=mask, **kwargs)
        if self._rematerialises():
            mask = ops.not_equal(*self._real(self._named(inputs)))
            hidden, table, *others = run_rematerialised(self, self._embedding(), inputs, mask, self._other_heads())
        else:
            hidden, table, *others = self._trunk()(inputs, training=training)
        positions, labelled = self._slots(inputs)
        if positions is not None:
            hidden = ops.take_along_axis(hidden, positions[..., None], axis=1)  # (B, L, D) → (B, max_predictions, D)
        mlm = self._mlm(hidden, table, self._labels(inputs, positions) if self._computes_chunks("MLM") else None)
        if positions is not None:
            left_out = ops.sum(ops.cast(self._labelled(inputs), "int32")) > ops.sum(ops.cast(labelled, "int32"))
            mlm = mlm + ops.where(left_out, float("nan"), 0.0)
        if not self._has_own_loss():
            mlm = self.get_layer("MLM")([mlm, ops.cast(labelled, "int32")])
        answers = {"MLM": mlm}
        for head, x in zip(self._other_heads(), others, strict=True):
            layer = self.get_layer(head)
            answers[head] = layer(x, return_logits=self._takes_logits(head)) if isinstance(layer, Dense) else x
        return self._listed(answers)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        by_head = {h: [*self._metrics_of(h, metrics), *self._metrics_of(h, weighted_metrics)] for h in self.output_names}
        needs = {head: needs_of(head, own) for head, own in by_head.items()}
        if getattr(self._by_head(loss)["MLM"], "chunk", None) is not None:
            check_needs_no_vocabulary("MLM", by_head["MLM"])
        if self.remat:
            blocks_of(self)  # the error of a model without a config, before a step
        super().compile(optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs)
        self.__dict__["_metric_needs"] = needs

    def _answer_of(self, head, loss):
        return LOGITS if getattr(loss, "takes_logits", False) else super()._answer_of(head, loss)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **({"remat": True} if self.remat else {})}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
        model = super().from_config({key: value for key, value in config.items() if key != "remat"}, custom_objects=custom_objects)
        model.remat = config.get("remat", False)
        return model

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self._has_own_loss():
            y_pred = self._by_head(y_pred)
            if not self._computes_logits():  # probabilities from a call of the model: softmax(log p) = p
                y_pred = {h: _log(p) if self._takes_logits(h) else p for h, p in y_pred.items()}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._has_own_loss():
            y_pred = {head: self._for_metrics(head, answer) for head, answer in self._by_head(y_pred).items()}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight, flat=True)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _for_metrics(self, head, answer):
        """The answer of a head in the form that its metrics need."""
        need = self.__dict__["_metric_needs"][head]
        if need is None or self._computes_chunks(head):
            return answer
        if not (self._computes_logits() and self._takes_logits(head)):  # probabilities
            return answer if need == PROBABILITIES else _log(answer)
        return {PROBABILITIES: ops.softmax, LOGITS: ops.copy, LOG_PROBABILITIES: ops.log_softmax}[need](answer)

    def _mlm(self, hidden, table, labels):
        features = self.get_layer("MLM-Norm")(self.get_layer("MLM-Dense")(hidden))
        layer = self.get_layer("MLM-Sim")
        if labels is None:
            return layer([features, table], return_logits=self._takes_logits("MLM"))
        columns = label_log_probabilities(
            ops.reshape(ops.cast(features, table.dtype), (-1, features.shape[-1])),
            ops.stop_gradient(table) if layer.stop_gradient else table,
            ops.convert_to_tensor(layer.bias) if layer.use_bias else ops.zeros(table.shape[:1], "float32"),
            ops.reshape(labels, (-1,)),
            self._loss_of("MLM").chunk,
        )
        return ops.reshape(columns, (*ops.shape(features)[:-1], 2))

    def _labels(self, inputs, positions):
        """The labels of the step where the MLM head is computed; those that do not count become some token of the table."""
        labels = ops.reshape(self._by_head(self._step_labels())["MLM"], ops.shape(self._labelled(inputs)))
        if positions is not None:
            labels = ops.take_along_axis(labels, positions, axis=1)
        return ops.clip(ops.cast(labels, "int32"), 0, self.get_layer("Embedding-Token").input_dim - 1)

    def _embedding(self):
        """The graph up to the first encoder block, and the token table."""
        if "_embedding_model" not in self.__dict__:
            last = "Embedding-Norm" if self.config.embedding_size is None else "Embedding-Mapping"
            outputs = [self.get_layer(last).output, self.get_layer("Embedding-Token").output[1]]
            self.__dict__["_embedding_model"] = keras.Model(self.inputs, outputs)
        return self.__dict__["_embedding_model"]

    def _trunk(self):
        """The graph up to the last layers of the heads, made of the same layers."""
        if "_trunk_model" not in self.__dict__:
            outputs = [self.get_layer("MLM-Dense").input, self.get_layer("Embedding-Token").output[1]]
            for head in self._other_heads():
                layer = self.get_layer(head)
                outputs.append(layer.input if isinstance(layer, Dense) else self.outputs[self.output_names.index(head)])
            # Not by assignment: a tracked sub-model would appear among the layers.
            self.__dict__["_trunk_model"] = keras.Model(self.inputs, outputs)
        return self.__dict__["_trunk_model"]

    def _other_heads(self):
        return [name for name in self.output_names if name != "MLM"]

    def _metrics_of(self, head, metrics):
        if isinstance(metrics, dict):
            metrics = metrics.get(head)
        elif len(self.output_names) > 1 and isinstance(metrics, (list, tuple)):
            metrics = dict(zip(self.output_names, metrics, strict=False)).get(head)
        return keras.tree.flatten(metrics)

    def _loss_of(self, head):
        return self._by_head(getattr(self, "loss", None))[head]

    def _takes_logits(self, head):
        return getattr(self._loss_of(head), "takes_logits", False)

    def _max_predictions(self):
        return getattr(self._loss_of("MLM"), "max_predictions", None) if self._takes_logits("MLM") else None

    def _computes_chunks(self, head):
        return head == "MLM" and self._computes_logits() and getattr(self._loss_of(head), "chunk", None) is not None

    def _rematerialises(self):
        return self.remat and self._in_step("train")

    def _has_own_loss(self):
        return any(self._takes_logits(head) for head in self.output_names)

    def _computes_logits(self):
        return self._in_step("train", "test") and self._has_own_loss()

    def _named(self, inputs):
        if isinstance(inputs, dict):
            return inputs
        return {tensor.name: value for tensor, value in zip(self.inputs, inputs, strict=True)}

    def _labelled(self, inputs):
        """Where a label is: positions chosen for prediction that are not padding, `(batch, length)`."""
        named = self._named(inputs)
        return ops.logical_and(ops.not_equal(named["Input-Masked"], 0), ops.not_equal(*self._real(named)))

    def _real(self, named):
        """An input, and its value at padding."""
        if "Input-Mask" in named:
            return named["Input-Mask"], 0
        return named["Input-Token"], self.get_layer("Embedding-Token").pad_id

    def _slots(self, inputs):
        """The positions to gather, labelled ones first and in order, and which of them are labelled: `(batch, max_predictions)`.

        Where nothing is gathered, None and the labelled positions of the whole length.
        """
        labelled = self._labelled(inputs)
        slots = self._max_predictions()
        if slots is None or not self._computes_logits():
            return None, labelled
        return labelled_first(labelled, slots)

    def _aligned(self, x, y, y_pred, sample_weight, flat=False):
        """Labels, predictions and weights as lists of one item a head, those of the MLM head `(batch, slots)`, flat `(positions,)`.

        The mask of the labelled slots is attached to its predictions: on JAX it is lost with every transformation.
        """
        if x is None:
            return y, self._listed(y_pred), sample_weight
        y, weights = self._by_head(y), self._by_head(sample_weight)
        everywhere = self._labelled(x)
        positions, labelled = self._slots(x)
        whole = ops.shape(everywhere)
        ids = {head: takes_ids(self._loss_of(head)) for head in self.output_names}
        mlm, weight = ops.reshape(y["MLM"], whole) if ids["MLM"] else y["MLM"], weights["MLM"]
        if weight is not None:
            per_example = math.prod(weight.shape[1:]) == 1
            weight = ops.reshape(weight, (-1, 1) if per_example else whole)
            # A tensor of its own, since Keras multiplies it in place.
            weight = weight * ops.ones_like(everywhere, dtype=weight.dtype)
        if positions is not None:
            mlm = ops.take_along_axis(mlm, positions, axis=1)
            weight = None if weight is None else ops.take_along_axis(weight, positions, axis=1)
        if self._computes_chunks("MLM"):
            mlm = ops.full_like(mlm, LABEL_COLUMN)
        if flat:
            mlm, masked, weight = flat_labels(mlm, y_pred["MLM"], labelled, weight)
        else:
            masked = self.get_layer("MLM")([y_pred["MLM"], ops.cast(labelled, "int32")])
        y = {head: ops.reshape(label, (-1,)) if head in CLASSES and ids[head] else label for head, label in y.items()}
        weights = None if sample_weight is None else self._listed({**weights, "MLM": weight})
        return self._listed({**y, "MLM": mlm}), self._listed({**y_pred, "MLM": masked}), weights

    def _by_head(self, values):
        """A value for every output, from a dictionary, a list, or one value that all outputs share."""
        heads = self.output_names
        if isinstance(values, dict):
            if values and not set(heads) & set(values):
                raise ValueError(
                    f"expected values by the names of the outputs, {', '.join(heads)}; got {', '.join(map(str, values))}."
                )
            return {head: values.get(head) for head in heads}
        values = values if isinstance(values, (list, tuple)) else [values] * len(heads)
        if len(values) != len(heads):
            raise ValueError(f"expected one value for each of the outputs {', '.join(heads)}; got {len(values)}.")
        return dict(zip(heads, values, strict=True))

    def _listed(self, by_head):
        """The values in the order of the outputs; that of a single output alone."""
        values = [by_head[head] for head in self.output_names]
        return values if len(values) > 1 else values[0]

    def _check_batch(self, batch):
        x, *rest = super()._check_batch(batch)
        if rest and rest[0] is not None:
            self._check_labels(self._named(x), self._by_head(rest[0]))
        return (x, *rest)

    def _check_labels(self, named, labels):
        """Check the labels of heads whose loss takes ids; of the MLM head those that count, whatever stands at other positions."""
        labels = {head: concrete(value) for head, value in labels.items() if takes_ids(self._loss_of(head))}
        real, pad = self._real(named)
        real, masked, mlm = concrete(real), concrete(named["Input-Masked"]), labels.get("MLM")
        if mlm is not None and real is not None and masked is not None:
            if self._max_predictions() is not None:
                check_predictions(masked, real != pad, self._max_predictions())
            if np.size(mlm) != masked.size:
                raise ValueError(f"labels of MLM: expected an id for every position, {masked.shape}; got shape {np.shape(mlm)}.")
            rule = IdRule("labels of MLM", self.get_layer("Embedding-Token").input_dim, "the tokens of the vocabulary")
            check_ids(rule, np.where((masked != 0) & (real != pad), np.reshape(mlm, masked.shape), 0))
        for head, classes in CLASSES.items():
            if labels.get(head) is not None:
                check_ids(IdRule(f"labels of {head}", 2, classes), labels[head])


def _log(probabilities):
    return ops.log(ops.maximum(probabilities, 1e-37))


# A legacy .h5 file names the class without its package.
keras.saving.get_custom_objects()["PretrainingModel"] = PretrainingModel
