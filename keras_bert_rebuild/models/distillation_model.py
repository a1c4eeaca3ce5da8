"""The model class of distillation: a student that learns from text and from a frozen teacher."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.anatomy.heads import HEADS
from keras_bert_rebuild.layers.masks import at_positions, slots_of
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.distillation_objectives import Objective, Seen
from keras_bert_rebuild.models.named_tensors import by_head, ids_of, in_order
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import RunningStep, running_step
from keras_bert_rebuild.models.step_plan import StepPlan

MLM = HEADS["mlm"].layer


class DistillationModel(PretrainingModel):
    """A student that is trained to imitate a frozen teacher; create it with `build_distillation_model`.

        L = mlm_weight · L_MLM + Σ weight · L_objective

    Its layers and weights are those of `student`, plus a projection if an objective needs one. The teacher runs in inference mode
    on the same masked tokens, up to the last block that an objective reads; its weights are not trained, counted or saved.

    Inputs and label are those of the student. Outputs: `MLM`, and for every objective the loss of each position, `(batch, slots)`
    or `(batch, length)`, whose mean over the positions that count is the loss of the objective.

    It cannot be saved itself: save `student`.

    Reference: Sanh et al., 2019, section 2 (https://arxiv.org/abs/1910.01108).
    """

    student: PretrainingModel
    """A `PretrainingModel` with the head "mlm"."""

    objectives: Sequence[Objective] = ()
    """The objectives."""

    mlm_weight: float = 1.0
    """Weight of the loss of masked tokens."""

    _frozen: Any = None

    @functools.cached_property
    def _graph(self):
        return DistillationGraph(self)

    @property
    def teacher(self) -> keras.Model:
        """The teacher. It is hidden from Keras, which would otherwise train, count and save it."""
        return self._frozen.model

    @property
    def non_trainable_variables(self) -> list[Any]:
        # JAX passes these to a compiled step; any other variable would be a constant in the program.
        return [*super().non_trainable_variables, *([] if self._frozen is None else self.teacher.weights)]

    def call(self, inputs, training=None, mask=None, **kwargs):
        step = running_step(self)
        plan = self._plan if step is not None and self._plan.changes(step.kind) else StepPlan()
        return in_order(self.output_names, self._graph.outputs(plan, step, inputs, training))

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, metrics: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if loss_weights is None:
            weights = {objective.name: float(objective.weight) for objective in self.objectives}
            loss_weights = in_order(self.output_names, {MLM: float(self.mlm_weight), **weights})
        super().compile(optimizer, loss, loss_weights, metrics, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        raise ValueError("a DistillationModel cannot be saved itself: save its part, model.student, or a checkpoint.")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, self._labels(x, y), y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, self._labels(x, y), y_pred, sample_weight)

    def _labels(self, x, y):
        """The labels of all outputs; for an objective 1 at positions whose losses count, else 0."""
        labels = by_head(self.output_names, y)[MLM]
        _, predicted = slots_of(self._graph.labelled(x), self._plan.max_predictions if self._in_planned_step() else None)
        tokens = ops.not_equal(*self._graph.padding_of(self._graph.named(x)))
        counts = {part.name: ops.cast(predicted if part.at_labels else tokens, "float32") for part in self.objectives}
        return in_order(self.output_names, {MLM: labels, **counts})


class TeacherGraph(PretrainingGraph):
    """The part of a teacher's graph that objectives read.

    Args:
        model: the teacher, with or without that head.
        last: the number of the last block that is read.
    """

    def __init__(self, model: keras.Model, last: int) -> None:
        super().__init__(model)
        self.last = last

    def seen(self, ids: dict[str, Any], positions: Any, with_features: bool) -> Seen:
        """The teacher's outputs for a batch in inference mode.

        Args:
            ids: the inputs by name.
            positions: positions of the MLM head, `(batch, slots)`; None for all.
            with_features: whether the MLM head is read.
        """
        start = self.view.embed(ids)
        states = [ops.stop_gradient(x) for x in self.view.states(start, self.last, final_norm=True)]
        features = self.features(at_positions(states[-1], positions)) if with_features else None
        return Seen(self, states, start.mask, start.table, None if features is None else ops.stop_gradient(features))


class DistillationGraph(PretrainingGraph):
    """The graphs that a step of a `DistillationModel` runs: that of the student and that of the teacher.

    Args:
        model: the model.
    """

    def __init__(self, model: DistillationModel) -> None:
        super().__init__(model.student, model)
        self.reads_head = any(objective.at_labels for objective in model.objectives)
        last = max((objective.last_block(model.teacher.config) for objective in model.objectives), default=0)
        self.teacher = TeacherGraph(model.teacher, last)

    def outputs(self, plan: StepPlan, step: RunningStep | None, inputs: Any, training: bool | None) -> dict[str, Any]:
        ids = ids_of(self.whole, inputs)
        everywhere = self.labelled(ids)
        slots = slots_of(everywhere, plan.max_predictions)
        start = self.view.embed(ids, training)
        with executing(*self.execution_of(plan, step).rules):
            states = [*self.view.states(start, training=training, final_norm=True)]
        features = self.features(at_positions(states[-1], slots[0]))
        outputs = self.answers(plan, None if step is None else step.labels, everywhere, slots, features, start.table)
        has_logits = plan.gives_logits and plan.chunk is None
        student = Seen(self, states, start.mask, start.table, features, outputs[MLM] if has_logits else None)
        teacher = self.teacher.seen(ids, slots[0], self.reads_head)
        for objective in self.whole.objectives:
            projection = self.whole.projections.get(objective.name)
            outputs[objective.name] = objective.losses(teacher, student, projection, plan.chunk)
        return outputs


class _Frozen:
    """Hides a model from Keras."""

    def __init__(self, model):
        self.model = model


def build_distillation_model(
    student: PretrainingModel, teacher: keras.Model, objectives: Sequence[Objective], mlm_weight: float = 1.0
) -> DistillationModel:
    """A model that trains a student to imitate a teacher, and freezes the teacher.

    Args:
        student: a model from `build_model` with a config and the head "mlm" alone.
        teacher: a model with the same inputs and vocabulary; it may lack the head "mlm" if no objective reads it.
        objectives: the objectives, at most one of each kind.
        mlm_weight: weight of the loss of masked tokens, at least 0.

    Returns:
        A `DistillationModel`.

    Raises:
        ValueError: there is no objective or several of a kind, layers or heads do not match, the vocabularies or inputs differ, or
            the teacher lacks a head that an objective reads.
    """
    names = [objective.name for objective in objectives]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"distillation must have one or more objectives, one of each kind; got {', '.join(names) or 'none'}.")
    if student.output_names != [MLM]:
        raise ValueError(f"a student must have only the head mlm; got the outputs {', '.join(student.output_names)}.")
    for objective in objectives:
        objective.check(teacher.config, student.config)
    _check_inputs(student, teacher)
    if any(objective.at_labels for objective in objectives) and MLM not in teacher.output_names:
        raise ValueError(f"soft targets need a teacher with an MLM head; got the outputs {', '.join(teacher.output_names)}.")
    teacher.trainable = False
    # `call` computes the values; these outputs only define names and shapes.
    masked = next(tensor for tensor in student.inputs if tensor.name == "Input-Masked")
    shown = [keras.layers.Identity(name=name, dtype="float32")(ops.cast(masked, "float32")) for name in names]
    model = DistillationModel(student.inputs, [student.outputs[0], *shown])
    model.config, model.student, model.objectives, model.mlm_weight = student.config, student, tuple(objectives), mlm_weight
    projections = {objective.name: objective.projection(teacher.config, student.config) for objective in objectives}
    model.projections = {name: layer for name, layer in projections.items() if layer is not None}
    model._frozen = _Frozen(teacher)
    return model


def _check_inputs(student, teacher):
    """Refuse a teacher with other inputs or another vocabulary."""
    if teacher.config.vocab_size != student.config.vocab_size:
        sizes = f"{teacher.config.vocab_size} and {student.config.vocab_size}"
        raise ValueError(f"teacher and student must have the same vocabulary; got {sizes} tokens.")
    theirs, mine = ({tensor.name for tensor in model.inputs} - {"Input-Masked"} for model in (teacher, student))
    if theirs != mine:
        raise ValueError(f"teacher and student must have the same inputs; got {sorted(theirs)} and {sorted(mine)}.")
    if any(model.config.encoder().embedding.query for model in (teacher, student)):
        raise ValueError("distillation expected models that predict masked tokens from their context; got a two-stream model.")
