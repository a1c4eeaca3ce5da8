"""The model class of pretraining: its losses see logits, at the masked positions only."""

import math

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.models.bert_model import BertModel, concrete
from keras_bert_rebuild.models.host_check import IdRule, check_ids, check_predictions

HEADS = ("MLM", "NSP")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingModel(BertModel):
    """BERT with its two pretraining heads, as `get_model` builds it.

    Called or asked to predict, it answers with probabilities. In a training or test step, each head whose compiled loss has a true
    attribute `takes_logits` answers with logits, and if the loss of the MLM head has a number `max_predictions`, that head runs
    only at so many gathered positions per example: the product with the vocabulary is most of the work, and 85 % of it would be
    thrown away. Labels and weights are aligned, and the rest is Keras: `sample_weight`, loss weights, regularisers and metrics.
    Metrics are given probabilities.

    An example with more positions to predict than `max_predictions` is a `ValueError` from the host check, and makes the loss NaN
    where no check came before.
    """

    def call(self, inputs, training=None, mask=None, **kwargs):
        if not self._computes_logits():
            return super().call(inputs, training=training, mask=mask, **kwargs)
        hidden, table, pooled = self._trunk()(inputs, training=training)
        positions, labelled = self._slots(inputs)
        if positions is not None:
            hidden = ops.take_along_axis(hidden, positions[..., None], axis=1)  # (B, L, D) → (B, max_predictions, D)
        mlm = self._mlm(hidden, table)
        if positions is not None:
            left_out = ops.sum(ops.cast(self._labelled(inputs), "int32")) > ops.sum(ops.cast(labelled, "int32"))
            mlm = mlm + ops.where(left_out, float("nan"), 0.0)
        return [mlm, self.get_layer("NSP")(pooled, return_logits=self._takes_logits("NSP"))]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self._has_own_loss():
            y_pred = self._by_head(y_pred)
            if not self._computes_logits():  # probabilities from a call of the model: softmax(log p) = p
                y_pred = {h: ops.log(ops.maximum(y_pred[h], 1e-37)) if self._takes_logits(h) else y_pred[h] for h in HEADS}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._has_own_loss():
            y_pred = self._by_head(y_pred)
            if self._computes_logits():
                y_pred = {h: ops.softmax(y_pred[h]) if self._takes_logits(h) else y_pred[h] for h in HEADS}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _mlm(self, hidden, table):
        hidden = self.get_layer("MLM-Norm")(self.get_layer("MLM-Dense")(hidden))
        return self.get_layer("MLM-Sim")([hidden, table], return_logits=self._takes_logits("MLM"))

    def _trunk(self):
        """The graph up to the heads, made of the same layers."""
        if "_trunk_model" not in self.__dict__:
            outputs = [self.get_layer("MLM-Dense").input, self.get_layer("Embedding-Token").output[1], self.get_layer("NSP").input]
            # Not by assignment: a tracked sub-model would appear among the layers.
            self.__dict__["_trunk_model"] = keras.Model(self.inputs, outputs)
        return self.__dict__["_trunk_model"]

    def _losses_by_head(self):
        loss = getattr(self, "loss", None)
        if isinstance(loss, dict):
            return {head: loss.get(head) for head in HEADS}
        return dict(zip(HEADS, loss, strict=True)) if isinstance(loss, (list, tuple)) else dict.fromkeys(HEADS, loss)

    def _takes_logits(self, head):
        return getattr(self._losses_by_head()[head], "takes_logits", False)

    def _max_predictions(self):
        return getattr(self._losses_by_head()["MLM"], "max_predictions", None) if self._takes_logits("MLM") else None

    def _has_own_loss(self):
        return any(self._takes_logits(head) for head in HEADS)

    def _computes_logits(self):
        return self._in_step("train", "test") and self._has_own_loss()

    def _named(self, inputs):
        if isinstance(inputs, dict):
            return inputs
        return {tensor.name: value for tensor, value in zip(self.inputs, inputs, strict=True)}

    def _labelled(self, inputs):
        """Where a label is: positions chosen for prediction that are not padding, `(batch, length)`."""
        named = self._named(inputs)
        real = named.get("Input-Mask", named["Input-Token"])
        return ops.logical_and(ops.not_equal(named["Input-Masked"], 0), ops.not_equal(real, 0))

    def _slots(self, inputs):
        """The positions to gather, labelled ones first and in order, and which of them are labelled: `(batch, max_predictions)`.

        Where nothing is gathered, None and the labelled positions of the whole length.
        """
        labelled = self._labelled(inputs)
        slots = self._max_predictions()
        if slots is None or not self._computes_logits():
            return None, labelled
        length = labelled.shape[1]
        if length is None:  # a TensorFlow graph of any length
            length = ops.shape(labelled)[1]
            slots = ops.minimum(slots, length)
        else:
            slots = min(slots, length)
        order = ops.cast(length - ops.arange(length), "int32")  # `top_k` prefers the front of the sequence
        keys, positions = ops.top_k(ops.cast(labelled, "int32") * (length + 1) + order, slots)
        return positions, keys > length

    def _aligned(self, x, y, y_pred, sample_weight):
        """Labels, predictions and weights as lists of one item a head, those of the MLM head `(batch, slots)`.

        The mask of the labelled slots is attached to its predictions: on JAX it is lost with every transformation.
        """
        if x is None:
            return y, _listed(y_pred), sample_weight
        y, weights = self._by_head(y), self._by_head(sample_weight)
        everywhere = self._labelled(x)
        positions, labelled = self._slots(x)
        whole = ops.shape(everywhere)
        mlm, weight = ops.reshape(y["MLM"], whole), weights["MLM"]
        if weight is not None:
            per_example = math.prod(weight.shape[1:]) == 1
            weight = ops.reshape(weight, (-1, 1) if per_example else whole)
            # A tensor of its own, since Keras multiplies it in place.
            weight = weight * ops.ones_like(everywhere, dtype=weight.dtype)
        if positions is not None:
            mlm = ops.take_along_axis(mlm, positions, axis=1)
            weight = None if weight is None else ops.take_along_axis(weight, positions, axis=1)
        masked = self.get_layer("MLM")([y_pred["MLM"], ops.cast(labelled, "int32")])
        weights = None if sample_weight is None else [weight, weights["NSP"]]
        return [mlm, ops.reshape(y["NSP"], (-1,))], [masked, y_pred["NSP"]], weights

    def _by_head(self, values):
        if isinstance(values, dict):
            return {head: values.get(head) for head in HEADS}
        return dict(zip(HEADS, values, strict=True)) if isinstance(values, (list, tuple)) else dict.fromkeys(HEADS, values)

    def _check_batch(self, batch):
        x, *rest = super()._check_batch(batch)
        if rest and rest[0] is not None:
            self._check_labels(self._named(x), self._by_head(rest[0]))
        return (x, *rest)

    def _check_labels(self, named, labels):
        """Check the labels that count; what stands at other positions does not matter."""
        real = concrete(named.get("Input-Mask", named["Input-Token"]))
        masked, mlm, nsp = (concrete(value) for value in (named["Input-Masked"], labels["MLM"], labels["NSP"]))
        if mlm is not None and real is not None and masked is not None:
            if self._max_predictions() is not None:
                check_predictions(masked, real, self._max_predictions())
            mlm = np.reshape(mlm, masked.shape)
            rule = IdRule("labels of MLM", self.outputs[0].shape[-1], "the tokens of the vocabulary")
            check_ids(rule, np.where((masked != 0) & (real != 0), mlm, 0))
        if nsp is not None:
            check_ids(IdRule("labels of NSP", 2, "0 the next sentence, 1 a random one"), nsp)


def _listed(by_head):
    return [by_head[head] for head in HEADS]


# A legacy .h5 file names the class without its package.
keras.saving.get_custom_objects()["PretrainingModel"] = PretrainingModel
