"""The model class of ELECTRA's pretraining: a generator whose samples replace tokens, and a discriminator that detects them."""

import functools
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.anatomy.heads import DRAW_BITS, HEADS
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.layers.masks import at_positions, slots_of
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.loss_protocols import Ignores
from keras_bert_rebuild.models.masked_positions import flat_labels, put_at_positions
from keras_bert_rebuild.models.named_tensors import by_head, in_order
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import RunningStep
from keras_bert_rebuild.models.step_plan import StepPlan


def sample_tokens(logits: Any, draws: Any) -> Any:
    """The tokens that random numbers select from the softmax of logits; no gradient flows through them.

        u = draw / 2²⁴        token = the first k with p[0] + … + p[k] > u

    Since the numbers are given, a step samples the same tokens on every backend, on any number of devices, and in a resumed run.
    Probabilities are in float32 under any dtype policy.

    Args:
        logits: `(..., vocabulary)`.
        draws: whole numbers in [0, 2²⁴), `(...)`.

    Returns:
        Token ids, int32 `(...)`.

    Reference: Devroye, 1986, "Non-Uniform Random Variate Generation", section III.2 (inversion by sequential search).
    """
    sums = ops.cumsum(ops.softmax(ops.cast(ops.stop_gradient(logits), "float32")), axis=-1)
    limits = ops.cast(draws, "float32")[..., None] * 2.0**-DRAW_BITS * sums[..., -1:]
    tokens = ops.sum(ops.cast(sums <= limits, "int32"), axis=-1)
    return ops.minimum(tokens, logits.shape[-1] - 1)  # u may be rounded up to the total of the probabilities


MLM, RTD = HEADS["mlm"].layer, HEADS["rtd"].layer

# The output with the discriminator's input tokens, which has no loss, and the scope of the generator's variables.
TOKENS, GENERATOR = "Tokens", "Generator"


class ReplacedTokenModel(PretrainingModel):
    """Generator and discriminator of an ELECTRA, trained together; create it with `build_replaced_token_model`.

        L = L_MLM(generator) + weight · L_RTD(discriminator)

    The generator predicts masked tokens. At those positions the discriminator gets tokens sampled from the generator's softmax; for
    every token except padding it predicts whether it was replaced. A sample equal to the original token counts as original. No
    gradient flows through the samples. The token, segment and position tables and their norm are the same variables in both.

    Inputs: `Input-Token`, with masks; `Input-Segment`; `Input-Draw`, whole numbers in [0, 2²⁴) that select the samples;
    `Input-Masked`, 1 at tokens to predict; for packed rows `Input-Mask`. All `(batch, length)`, int32. The only labels are those of
    the MLM head: the tokens before masking, `(batch, length)` or with a last axis of 1. Outputs: `MLM`, of the generator; `Tokens`,
    the input of the discriminator; `RTD`, its logits `(batch, length, 1)`.

    It cannot be saved itself. `save_pretrained` saves `discriminator`, and a copy of `generator`, since the paths of its variables
    begin with "Generator/": `whole_model(model.generator, copied=True)` of `training.distributed.distribution`.

    Reference: Clark et al., 2020, section 2 and equation for the combined loss (https://arxiv.org/abs/2003.10555);
    `run_pretraining.py` of google-research/electra.
    """

    generator: PretrainingModel
    """A `PretrainingModel` with the head "mlm"."""

    discriminator: BertModel
    """A `BertModel` with the head "rtd"."""

    weight: float = 50.0
    """Weight of the discriminator's loss."""

    @functools.cached_property
    def _graph(self):
        return ReplacedTokenGraph(self)

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, metrics: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if loss_weights is None:
            loss_weights = in_order(self.output_names, {MLM: 1.0, TOKENS: None, RTD: self.weight})
        self._ignored = None if loss is None else _ignored_by(by_head(self.output_names, loss)[RTD])
        super().compile(optimizer, loss, loss_weights, metrics, *args, **kwargs)
        if self._plan.chunk is not None:
            raise ValueError(f"loss_chunk must be None for a generator, which samples from all logits; got {self._plan.chunk}.")

    def get_config(self) -> dict[str, Any]:
        raise ValueError(
            "a ReplacedTokenModel cannot be saved itself: save its parts, model.discriminator and model.generator, or a checkpoint."
        )

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return super().compute_loss(x, self._labels(x, y, y_pred), y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, self._labels(x, y, y_pred), y_pred, sample_weight)

    def _labels(self, x, y, y_pred):
        """The labels of all outputs; for the discriminator 1 at replaced tokens, 0 at original ones, -100 at padding."""
        labels, tokens = by_head(self.output_names, y)[MLM], by_head(self.output_names, y_pred)[TOKENS]
        masked, named = self._graph.labelled(x), self._graph.named(x)
        padding, ignored = ops.equal(*self._graph.padding_of(named)), self._ignored
        original = ops.cast(ops.reshape(labels, ops.shape(masked)), tokens.dtype)
        replaced = ops.cast(ops.logical_and(masked, ops.not_equal(tokens, original)), "int32")
        return in_order(self.output_names, {MLM: labels, TOKENS: tokens, RTD: ops.where(padding, ignored, replaced)})

    def _aligned(self, x, y, y_pred, sample_weight, flat=False):
        y, y_pred, sample_weight = super()._aligned(x, y, y_pred, sample_weight, flat)
        if not flat or x is None:
            return y, y_pred, sample_weight
        heads = self.output_names
        labels, outputs, weights = by_head(heads, y), by_head(heads, y_pred), by_head(heads, sample_weight)
        flattened = flat_labels(labels[RTD], outputs[RTD], ops.not_equal(labels[RTD], self._ignored), weights[RTD])
        labels[RTD], outputs[RTD], weights[RTD] = flattened
        return in_order(heads, labels), in_order(heads, outputs), None if sample_weight is None else in_order(heads, weights)


class ReplacedTokenGraph(PretrainingGraph):
    """The graphs that a step of a `ReplacedTokenModel` runs: that of the generator, then that of the discriminator.

    Args:
        model: the model.
    """

    def __init__(self, model: ReplacedTokenModel) -> None:
        super().__init__(model.generator, model)

    @functools.cached_property
    def discriminator(self) -> keras.Model:
        """The discriminator without input checks. Its output is logits."""
        return keras.Model(self.whole.discriminator.inputs, self.whole.discriminator.outputs)

    @functools.cached_property
    def discriminator_view(self) -> EncoderView:
        """The encoder of the discriminator."""
        return EncoderView(self.whole.discriminator)

    def outputs(self, plan: StepPlan, step: RunningStep, inputs: Any, training: bool | None) -> dict[str, Any]:
        named = {name: ops.convert_to_tensor(value) for name, value in self.named(inputs).items()}
        named.setdefault("Input-Mask", _mask(named["Input-Token"], self.model))
        (mlm,) = super().outputs(plan, step, {tensor.name: named[tensor.name] for tensor in self.model.inputs}, training).values()
        labelled = self.labelled(named)
        positions, _ = slots_of(labelled, plan.max_predictions)
        sampled = sample_tokens(mlm, at_positions(named["Input-Draw"], positions))
        tokens = put_at_positions(named["Input-Token"], labelled, positions, sampled)
        model, read = self.whole.discriminator, {**named, "Input-Token": tokens}
        execution, view = self.execution_of(plan, step), self.discriminator_view
        if execution.rules and view.blocks:
            _, hidden = view.before_logits(view.embed(read, training=True), [RTD], execution)
            replaced = model.get_layer(RTD)(hidden)
        else:
            replaced = self.discriminator([read[tensor.name] for tensor in model.inputs], training=training)
        return {MLM: mlm, TOKENS: tokens, RTD: replaced}


class _Replaced(keras.layers.Layer):
    """Samples the discriminator's tokens from the probabilities of the generator, in a call of the model."""

    supports_masking = True

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def call(self, inputs):
        tokens, masked, draws, mask, probabilities = inputs
        labelled = ops.logical_and(ops.not_equal(masked, 0), ops.not_equal(mask, 0))
        logits = ops.log(ops.maximum(ops.cast(probabilities, "float32"), 1e-37))
        return put_at_positions(tokens, labelled, None, sample_tokens(logits, draws))


def build_replaced_token_model(
    config: BertConfig, generator: BertConfig, weight: float = 50.0, seq_len: int | None = None, packed: bool = False
) -> ReplacedTokenModel:
    """Build a discriminator and its generator with a shared embedding and random weights.

    Args:
        config: the `BertConfig` of the discriminator.
        generator: the `BertConfig` of the generator, with an equal embedding.
        weight: weight of the discriminator's loss.
        seq_len: static length of the inputs, or None for any.
        packed: rows hold several sequences, distinguished by a last input `Input-Mask`, as for `build_model`.

    Returns:
        A `ReplacedTokenModel`.

    Raises:
        ValueError: the embeddings differ.
    """
    mine, other = (replace(each.encoder().embedding, widened=False) for each in (config, generator))
    if mine != other:
        raise ValueError(f"generator and discriminator must have the same embedding, which they share; got {other} and {mine}.")
    # A generator may sample the padding token, which is then not padding: hence a separate mask.
    discriminator = build_model(config, ["rtd"], seq_len=seq_len, padding_mask=True, packed=packed)
    with keras.name_scope(GENERATOR):
        small = build_model(generator, ["mlm"], seq_len=seq_len, padding_mask=True, packed=packed, embedding_of=discriminator)
    inputs = {
        name: keras.Input((seq_len,), dtype="int32", name=name)
        for name in (
            "Input-Token",
            *(["Input-Segment"] if mine.segments else []),
            "Input-Draw",
            "Input-Masked",
            *(["Input-Mask"] if packed else []),
        )
    }
    named = inputs if packed else {**inputs, "Input-Mask": _mask(inputs["Input-Token"], small)}
    mlm = small([named[tensor.name] for tensor in small.inputs])
    read = [named[name] for name in ("Input-Token", "Input-Masked", "Input-Draw", "Input-Mask")]
    tokens = _Replaced(name=TOKENS)([*read, mlm])
    named = {**named, "Input-Token": tokens}
    logits = discriminator([named[tensor.name] for tensor in discriminator.inputs])
    outputs = [keras.layers.Identity(name=MLM)(mlm), tokens, keras.layers.Identity(name=RTD, dtype="float32")(logits)]
    model = ReplacedTokenModel(list(inputs.values()), outputs)
    model.config, model.weight = config, weight
    model.generator, model.discriminator = small, discriminator
    return model


def _ignored_by(loss):
    """The label that the discriminator's loss ignores, which padding has."""
    if not isinstance(loss, Ignores) or loss.ignored is None:
        raise ValueError(f"the loss of {RTD} must ignore the labels of padding, as ReplacedTokenLoss does; got {loss!r}.")
    return loss.ignored


def _mask(tokens, model):
    return ops.cast(ops.not_equal(tokens, model.get_layer("Embedding-Token").pad_id), "int32")
