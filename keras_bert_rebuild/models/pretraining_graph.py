"""The graph of a pretraining model in the parts that a training step runs, with the model's own layers."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.anatomy.heads import TRANSFORM
from keras_bert_rebuild.kernels.token_layout import feed_forward_of_tokens, tokens_alone
from keras_bert_rebuild.layers import Dense, FeedForward
from keras_bert_rebuild.layers.masks import at_positions, most_sequences, nan_if_left_out, slots_of, slots_with_sequences
from keras_bert_rebuild.layers.seam import PLAIN, Execution, executing, execution
from keras_bert_rebuild.models.chunked_cross_entropy import label_log_probabilities
from keras_bert_rebuild.models.encoder_view import REMATERIALISED, EncoderView, on_tokens_alone
from keras_bert_rebuild.models.masked_positions import labelled_positions
from keras_bert_rebuild.models.named_tensors import is_packed, named_inputs, token_mask
from keras_bert_rebuild.models.running_step import TRAIN, RunningStep
from keras_bert_rebuild.models.step_plan import BLOCKS, StepPlan


class PretrainingGraph:
    """The parts of the graph that a step of a `PretrainingModel` runs.

    Args:
        model: a functional model with an MLM head, from `build_model`.
        whole: the model that a step trains, if `model` is a part of it; None if it is the same.
    """

    def __init__(self, model: keras.Model, whole: keras.Model | None = None) -> None:
        self.model, self.whole = model, model if whole is None else whole
        self.other_heads = [name for name in model.output_names if name != "MLM"]
        self.packed = is_packed(model)

    @functools.cached_property
    def without_last_layers(self) -> keras.Model:
        """The graph up to the last layers of the heads. Outputs: the input of MLM's last, the token table, the inputs of others."""
        hidden = self.transform[0].input if self.transform else self.model.get_layer("MLM-Sim").input[0]
        outputs = [hidden, self.model.get_layer("MLM-Sim").input[1]]  # a shared embedding has a table in each graph
        for head in self.other_heads:
            layer = self.model.get_layer(head)
            outputs.append(layer.input if isinstance(layer, Dense) else self.model.outputs[self.model.output_names.index(head)])
        return keras.Model(self.model.inputs, outputs)

    @functools.cached_property
    def transform(self) -> list[Any]:
        """The layers between the last block and the projection onto the vocabulary; none in some families."""
        present = {layer.name: layer for layer in self.model.layers}
        return [present[name] for name in TRANSFORM if name in present]

    @functools.cached_property
    def view(self) -> EncoderView:
        """The encoder of the model."""
        return EncoderView(self.model)

    @property
    def vocab_size(self) -> int:
        """Rows of the token table."""
        return self.model.get_layer("Embedding-Token").input_dim

    def named(self, inputs: Any) -> dict[str, Any]:
        """The inputs of the model by name."""
        return named_inputs(self.whole, inputs)

    def padding_of(self, named: dict[str, Any]) -> tuple[Any, int]:
        """The input that marks padding, `(batch, length)`, and its value at padding."""
        if "Input-Mask" in named:
            return named["Input-Mask"], 0
        return named["Input-Token"], self.model.get_layer("Embedding-Token").pad_id

    def labelled(self, inputs: Any) -> Any:
        """Where the MLM head has a label, `(batch, length)`."""
        named = self.named(inputs)
        return labelled_positions(named["Input-Masked"], *self.padding_of(named))

    def sequences(self, inputs: Any) -> Any:
        """Which outputs of the heads on pairs are those of a sequence, `(batch, slots)`; None for rows of one sequence."""
        if not self.packed:
            return None
        numbers = ops.convert_to_tensor(self.named(inputs)["Input-Mask"])
        return slots_with_sequences(numbers, most_sequences(ops.shape(numbers)[1]))

    def outputs(self, plan: StepPlan, step: RunningStep, inputs: Any, training: bool | None) -> dict[str, Any]:
        """The outputs of the heads in a training or test step.

        Args:
            plan: the plan of the step.
            step: the running step, with its labels if there is a `plan.chunk`.
            inputs: the inputs of the model.
            training: as for `call`.

        Returns:
            A dictionary by head: probabilities, or with `takes_logits` logits `(batch, classes)`; for the MLM head logits
            `(batch, slots, vocabulary)`, or with `plan.chunk` two columns `(batch, slots, 2)`.
        """
        everywhere = self.labelled(inputs)
        slots = slots_of(everywhere, plan.max_predictions)
        hidden, table, *head_inputs = self.hidden_at(slots[0], plan, step, inputs, training)
        labels = None if step is None else step.labels  # a direct call has none
        return self.answers(plan, labels, everywhere, slots, self.features(hidden), table, head_inputs)

    def features(self, hidden: Any) -> Any:
        """The features that are multiplied with the token table, from the input of the MLM head: `(batch, slots, embedding)`."""
        return functools.reduce(lambda x, layer: layer(x), self.transform, hidden)

    def answers(
        self,
        plan: StepPlan,
        labels: Any,
        everywhere: Any,
        slots: tuple[Any, Any],
        features: Any,
        table: Any,
        head_inputs: Any = (),
    ) -> dict[str, Any]:
        """The outputs of the heads from the inputs of their last layers, in the form of `outputs`.

        Args:
            plan: as for `outputs`.
            labels: the labels of the step, `(batch, length)` or with a last axis of 1; None without a `plan.chunk`.
            everywhere: where there are labels, from `labelled`.
            slots: the result of `slots_of`.
            features: the features of the MLM head, from `features`.
            table: the token table.
            head_inputs: the inputs of the last layers of the other heads.
        """
        positions, labelled = slots
        takes_logits = dict.fromkeys(self.model.output_names, False) | {head.name: head.takes_logits for head in plan.heads}
        if plan.chunk is None:
            mlm = self.model.get_layer("MLM-Sim")([features, table], return_logits=takes_logits["MLM"])
        else:
            labels = at_positions(ops.reshape(labels, ops.shape(everywhere)), positions)
            mlm = self._columns(features, table, labels, plan.chunk)
        if positions is not None:
            mlm = mlm + nan_if_left_out(everywhere, labelled)
        if not plan.gives_logits:
            mlm = self.masked(mlm, labelled)
        outputs = {"MLM": mlm}
        for head, x in zip(self.other_heads, head_inputs, strict=True):
            layer = self.model.get_layer(head)
            outputs[head] = layer(x, return_logits=takes_logits[head]) if isinstance(layer, Dense) else x
        return outputs

    def hidden_at(self, positions: Any, plan: StepPlan, step: RunningStep, inputs: Any, training: bool | None) -> list[Any]:
        """The input of the MLM head at some positions, `(batch, slots, hidden)`, or at all for None; the token table; and the
        inputs of the last layers of the other heads."""
        in_step = self.execution_of(plan, step)
        if in_step.rules and self.view.blocks:
            hidden, *head_inputs = self._in_parts(inputs, in_step)
        elif step is not None and step.kind == TRAIN and plan.without_padding:
            hidden, *head_inputs = self._without_padding(plan.without_padding, inputs, training)
        else:
            hidden, *head_inputs = self.without_last_layers(inputs, training=training)
        return [at_positions(hidden, positions), *head_inputs]  # (B, L, D) → (B, slots, D)

    def _without_padding(self, part, inputs, training):
        """The inputs of the last layers in a step that reads nothing at padding; other rules need the layout of the batch."""
        if execution().rules:
            return self.without_last_layers(inputs, training=training)
        if part == BLOCKS:
            mask = token_mask(self.view.layers, self.named(inputs))
            tokens = tokens_alone(self.model.config.encoder().width, mask)
            if tokens is not None:
                return self._in_parts(inputs, on_tokens_alone(tokens))
        with executing((FeedForward.call, feed_forward_of_tokens)):
            return self.without_last_layers(inputs, training=training)

    def _in_parts(self, inputs, execution):
        start = self.view.embed(self.named(inputs), training=True)
        hidden, *head_inputs = self.view.before_logits(start, self.other_heads, execution)
        return [hidden, start.table, *head_inputs]

    def execution_of(self, plan: StepPlan, step: RunningStep | None) -> Execution:
        """How blocks run in a step, or for None in a direct call."""
        return REMATERIALISED if plan.remat and step is not None and step.kind == TRAIN else PLAIN

    def masked(self, mlm: Any, labelled: Any) -> Any:
        """Outputs of the MLM head with a mask of the labelled ones, which every JAX transformation loses."""
        return self.model.get_layer("MLM")([mlm, ops.cast(labelled, "int32")])

    def factors(self, features: Any, table: Any) -> tuple[Any, Any, Any]:
        """The factors of the MLM logits, features · tableᵀ + bias: features `(positions, embedding)` and the token table
        `(vocabulary, embedding)`, both in the dtype of the head, and the bias `(vocabulary,)`, float32."""
        layer = self.model.get_layer("MLM-Sim")
        return (
            ops.reshape(ops.cast(features, table.dtype), (-1, features.shape[-1])),
            ops.stop_gradient(table) if layer.stop_gradient else table,
            ops.convert_to_tensor(layer.bias) if layer.use_bias else ops.zeros(table.shape[:1], "float32"),
        )

    def _columns(self, features, table, labels, chunk):
        """`label_log_probabilities` of labels; labels that do not count are replaced by an arbitrary token."""
        labels = ops.reshape(ops.clip(ops.cast(labels, "int32"), 0, self.vocab_size - 1), (-1,))
        columns = label_log_probabilities(*self.factors(features, table), labels, chunk)
        return ops.reshape(columns, (*ops.shape(features)[:-1], 2))
