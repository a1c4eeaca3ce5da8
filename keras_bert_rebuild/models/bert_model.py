"""The model class of encoders and tasks: it knows its config, and the step that it runs."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels import with_whole_weights
from keras_bert_rebuild.models.checked_model import CheckedModel
from keras_bert_rebuild.models.label_means import LabelMeans, LabelMeansModel
from keras_bert_rebuild.models.loss_protocols import Ignores
from keras_bert_rebuild.models.masked_positions import flat_labels
from keras_bert_rebuild.models.running_step import TEST, TRAIN, forget_functions, running
from keras_bert_rebuild.models.step_plan import answer_of, check_losses

# The attribute of the outputs of a clone that has yet to be made, with the attributes of the original.
CLONED = "_of_original"


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class BertModel(LabelMeansModel, CheckedModel):
    """A functional model with a `config`, whose `fit`, `evaluate`, `predict` and call refuse invalid ids: see `CheckedModel`.

    Reported losses are means over all labels of an epoch. A subclass with a `train_step` or `test_step` of its own reports what
    that returns, as in Keras.
    """

    config: Any = None
    """The `BertConfig` that the graph was built from, saved with the model; None for a model assembled by hand."""

    not_in_graph: tuple[str, ...] = ("config",)  # attributes that a clone gets besides the graph

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for tensor in keras.tree.flatten(self.outputs):
            self.__dict__.update(tensor.__dict__.pop(CLONED, {}))

    def _run_through_graph(self, *args, **kwargs):
        # `clone_model` calls this with copies of the layers, and then makes a model of the outputs, without `from_config`.
        outputs = super()._run_through_graph(*args, **kwargs)
        for tensor in keras.tree.flatten(outputs):
            history = getattr(tensor, "_keras_history", None)
            if history is not None and history.operation not in self.operations:
                tensor.__dict__[CLONED] = {name: getattr(self, name) for name in self.not_in_graph}
        return outputs

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.config is not None:
            config["bert_config"] = keras.saving.serialize_keras_object(self.config.to_dict())
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
        config = dict(config)
        bert_config = config.pop("bert_config", None)
        model = super().from_config(config, custom_objects=custom_objects)
        if bert_config is not None:
            values = keras.saving.deserialize_keras_object(bert_config, custom_objects=custom_objects)
            model.config = BertConfig.from_dict(values)
        return model

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, *args: Any, **kwargs: Any) -> None:
        check_losses(self.output_names, loss, self._answer_of)
        self._check_one_step_per_call(kwargs.get("steps_per_execution", 1))
        super().compile(optimizer, loss, loss_weights, *args, **kwargs)
        forget_functions(self)
        # Steps of others update every metric themselves, with labels and predictions.
        steps_of_keras = all(getattr(type(self), step) is getattr(BertModel, step) for step in ("train_step", "test_step"))
        self._label_means = LabelMeans.from_compiled(self, loss, loss_weights) if steps_of_keras else None

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras's method only warns if `compile` is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if isinstance(self.loss, Ignores) and self.loss.ignored is not None:
            labels = ops.reshape(y, ops.shape(y_pred)[:-1])
            y, y_pred, sample_weight = flat_labels(labels, y_pred, ops.not_equal(labels, self.loss.ignored), sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def stateless_call(self, *args: Any, **kwargs: Any) -> Any:
        return with_whole_weights(super().stateless_call, self)(*args, **kwargs)

    def train_step(self, *args: Any) -> Any:
        with running(self, TRAIN, self._labels_for_call(args[-1])):
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        with running(self, TEST, self._labels_for_call(args[-1])):
            return super().test_step(*args)

    def _check_one_step_per_call(self, steps):
        strategy = getattr(self, "distribute_strategy", None)
        if steps != 1 and strategy is not None and strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"steps_per_execution must be 1 under distribute('mirrored'); got {steps}: use distribute('data') on JAX."
            )

    def _answer_of(self, head, loss):
        """What a head returns in a step compiled with this loss."""
        return answer_of(self, head)

    def _labels_for_call(self, batch):
        """The labels of a batch that `call` needs in a training or test step; None if it needs none."""
