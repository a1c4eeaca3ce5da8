"""The model class of pretraining: its losses see logits, at the masked positions only."""

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
        named = self._named(inputs)
        hidden, table, pooled = self._trunk()(inputs, training=training)
        nsp = self.get_layer("NSP")(pooled, return_logits=self._takes_logits("NSP"))
        if not self._takes_logits("MLM"):
            return [self._mlm(hidden, table, return_logits=False), nsp]
        if self._max_predictions() is None:
            return [self._mlm(hidden, table, return_logits=True), nsp]
        positions, _ = self._gathered(named)
        hidden = ops.take_along_axis(hidden, positions[..., None], axis=1)  # (B, L, D) → (B, max_predictions, D)
        too_many = ops.sum(ops.cast(self._labelled(named), "int32"), axis=1) > self._max_predictions()
        nan = ops.where(too_many, float("nan"), 0.0)[:, None, None]
        return [self._mlm(hidden, table, return_logits=True) + nan, nsp]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        y_pred = self._by_head(y_pred)
        if not self._in_step("train", "test"):
            # Somebody hands in the model's own probabilities: softmax(log p) = p.
            logits = {h: ops.log(ops.maximum(y_pred[h], 1e-37)) if self._takes_logits(h) else y_pred[h] for h in HEADS}
            return super().compute_loss(x, y, _listed(logits), sample_weight, training)
        y, sample_weight = self._aligned(x, y, sample_weight)
        return super().compute_loss(x, y, self._with_mask(x, y_pred), sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if not self._computes_logits():
            return super().compute_metrics(x, y, y_pred, sample_weight)
        y_pred = self._by_head(y_pred)
        y_pred = {head: ops.softmax(y_pred[head]) if self._takes_logits(head) else y_pred[head] for head in HEADS}
        y, sample_weight = self._aligned(x, y, sample_weight)
        return super().compute_metrics(x, y, self._with_mask(x, y_pred), sample_weight)

    def _mlm(self, hidden, table, return_logits):
        hidden = self.get_layer("MLM-Norm")(self.get_layer("MLM-Dense")(hidden))
        return self.get_layer("MLM-Sim")([hidden, table], return_logits=return_logits)

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
        return getattr(self._losses_by_head()["MLM"], "max_predictions", None)

    def _computes_logits(self):
        return self._in_step("train", "test") and any(self._takes_logits(head) for head in HEADS)

    def _named(self, inputs):
        if isinstance(inputs, dict):
            return inputs
        return {tensor.name: value for tensor, value in zip(self.inputs, inputs, strict=True)}

    def _labelled(self, named):
        """Where a label is: positions chosen for prediction that are not padding, `(batch, length)`."""
        ids = named["Input-Token"]
        real = named.get("Input-Mask", ids)
        return ops.logical_and(ops.not_equal(named["Input-Masked"], 0), ops.not_equal(real, 0))

    def _gathered(self, named):
        """The first `max_predictions` labelled positions, in order, then others to fill up, and which of them are labelled."""
        labelled = self._labelled(named)
        length = labelled.shape[1]
        if length is None:
            length = ops.shape(labelled)[1]
            slots = ops.minimum(self._max_predictions(), length)
        else:
            slots = min(self._max_predictions(), length)
        order = ops.cast(length - ops.arange(length), "int32")  # `top_k` prefers the front of the sequence
        keys = ops.cast(labelled, "int32") * (length + 1) + order
        keys, positions = ops.top_k(keys, slots)
        return positions, keys > length

    def _with_mask(self, x, y_pred):
        """Predictions by head as Keras has them, the MLM mask attached: on JAX it is lost with every transformation."""
        named = self._named(x)
        gathers = self._takes_logits("MLM") and self._max_predictions() is not None
        labelled = self._gathered(named)[1] if gathers else self._labelled(named)
        return [self.get_layer("MLM")([y_pred["MLM"], ops.cast(labelled, "int32")]), y_pred["NSP"]]

    def _aligned(self, x, y, sample_weight):
        """Labels and weights as lists of one item a head, those of the MLM head gathered as the predictions are."""
        if y is None:
            return y, sample_weight
        y = self._by_head(y)
        weights = self._by_head(sample_weight)
        if self._takes_logits("MLM") and self._max_predictions() is not None:
            positions, _ = self._gathered(self._named(x))
            y["MLM"] = _gather(y["MLM"], positions)
            if weights["MLM"] is not None and len(weights["MLM"].shape) > 1 and weights["MLM"].shape[1] != 1:
                weights["MLM"] = _gather(weights["MLM"], positions)
        if sample_weight is None:
            return _listed(y), None
        return _listed(y), weights if isinstance(self.loss, dict) else _listed(weights)

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
            if self._takes_logits("MLM") and self._max_predictions() is not None:
                check_predictions(masked, real, self._max_predictions())
            mlm = np.reshape(mlm, masked.shape)
            rule = IdRule("labels of MLM", self.outputs[0].shape[-1], "the tokens of the vocabulary")
            check_ids(rule, np.where((masked != 0) & (real != 0), mlm, 0))
        if nsp is not None:
            check_ids(IdRule("labels of NSP", 2, "0 the next sentence, 1 a random one"), nsp)


def _listed(by_head):
    return [by_head[head] for head in HEADS]


def _gather(values, positions):
    """`(batch, length)` or `(batch, length, 1)` at the positions `(batch, K)`, as `(batch, K)`."""
    values = values[..., 0] if len(values.shape) == 3 else values
    return ops.take_along_axis(values, positions, axis=1)


# A legacy .h5 file names the class without its package.
keras.saving.get_custom_objects()["PretrainingModel"] = PretrainingModel
