"""The model class of pretraining: its losses see logits, at the masked positions only."""

import math

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers import Dense
from keras_bert_rebuild.models.bert_model import BertModel, concrete
from keras_bert_rebuild.models.host_check import IdRule, check_ids, check_predictions

# What the labels of a head mean.
CLASSES = {"NSP": "0 the next sentence, 1 a random one", "SOP": "0 in their order, 1 swapped"}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingModel(BertModel):
    """BERT with an MLM head and what stands beside it: next sentence in `get_model`, sentence order in ALBERT, nothing in RoBERTa.

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
        hidden, table, *others = self._trunk()(inputs, training=training)
        positions, labelled = self._slots(inputs)
        if positions is not None:
            hidden = ops.take_along_axis(hidden, positions[..., None], axis=1)  # (B, L, D) → (B, max_predictions, D)
        mlm = self._mlm(hidden, table)
        if positions is not None:
            left_out = ops.sum(ops.cast(self._labelled(inputs), "int32")) > ops.sum(ops.cast(labelled, "int32"))
            mlm = mlm + ops.where(left_out, float("nan"), 0.0)
        answers = {"MLM": mlm}
        for head, x in zip(self._other_heads(), others, strict=True):
            layer = self.get_layer(head)
            answers[head] = layer(x, return_logits=self._takes_logits(head)) if isinstance(layer, Dense) else x
        return self._listed(answers)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self._has_own_loss():
            y_pred = self._by_head(y_pred)
            if not self._computes_logits():  # probabilities from a call of the model: softmax(log p) = p
                y_pred = {h: ops.log(ops.maximum(p, 1e-37)) if self._takes_logits(h) else p for h, p in y_pred.items()}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._has_own_loss():
            y_pred = self._by_head(y_pred)
            if self._computes_logits():
                y_pred = {h: ops.softmax(p) if self._takes_logits(h) else p for h, p in y_pred.items()}
            y, y_pred, sample_weight = self._aligned(x, y, y_pred, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _mlm(self, hidden, table):
        hidden = self.get_layer("MLM-Norm")(self.get_layer("MLM-Dense")(hidden))
        return self.get_layer("MLM-Sim")([hidden, table], return_logits=self._takes_logits("MLM"))

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

    def _takes_logits(self, head):
        return getattr(self._by_head(getattr(self, "loss", None))[head], "takes_logits", False)

    def _max_predictions(self):
        return getattr(self._by_head(self.loss)["MLM"], "max_predictions", None) if self._takes_logits("MLM") else None

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
            return y, self._listed(y_pred), sample_weight
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
        y = {head: ops.reshape(label, (-1,)) if head in CLASSES else label for head, label in y.items()}
        weights = None if sample_weight is None else self._listed({**weights, "MLM": weight})
        return self._listed({**y, "MLM": mlm}), self._listed({**y_pred, "MLM": masked}), weights

    def _by_head(self, values):
        """A value for every output, from a dictionary, a list, or one value that all outputs share."""
        heads = self.output_names
        if isinstance(values, dict):
            return {head: values.get(head) for head in heads}
        return dict(zip(heads, values, strict=True)) if isinstance(values, (list, tuple)) else dict.fromkeys(heads, values)

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
        """Check the labels that count; what stands at other positions does not matter."""
        real, pad = self._real(named)
        real, masked, mlm = (concrete(value) for value in (real, named["Input-Masked"], labels["MLM"]))
        if mlm is not None and real is not None and masked is not None:
            if self._max_predictions() is not None:
                check_predictions(masked, real != pad, self._max_predictions())
            mlm = np.reshape(mlm, masked.shape)
            vocabulary = self.get_layer("Embedding-Token").input_dim
            rule = IdRule("labels of MLM", vocabulary, "the tokens of the vocabulary")
            check_ids(rule, np.where((masked != 0) & (real != pad), mlm, 0))
        for head, classes in CLASSES.items():
            if labels.get(head) is not None and concrete(labels[head]) is not None:
                check_ids(IdRule(f"labels of {head}", 2, classes), concrete(labels[head]))


# A legacy .h5 file names the class without its package.
keras.saving.get_custom_objects()["PretrainingModel"] = PretrainingModel
