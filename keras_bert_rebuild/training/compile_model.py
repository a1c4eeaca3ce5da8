"""keras_bert's `compile_model`."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild.anatomy.heads import HEADS
from keras_bert_rebuild.models.loss_protocols import takes_logits
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.step_plan import CHAINS, LOGITS, answer_of
from keras_bert_rebuild.training.losses import PretrainingLoss, ReplacedTokenAccuracy, ReplacedTokenLoss, ReplacedTokenShare
from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup
from keras_bert_rebuild.training.optimizers.whole_batch import whole_batch_optimizer

RTD = HEADS["rtd"].layer
LABELLED = {head.layer for head in HEADS.values()}

# Substrings of the paths of the variables that decay: tables and kernels, neither biases nor gamma and beta. The list also has
# keras_bert's names of the kernels, so that it works for both libraries.
WEIGHT_DECAY_PATTERN = ("embeddings", "kernel", "W1", "W2", "Wk", "Wq", "Wv", "Wo")


def compile_model(
    model: keras.Model,
    weight_decay: float = 0.01,
    decay_steps: int = 100000,
    warmup_steps: int = 10000,
    learning_rate: float = 1e-4,
    *,
    max_predictions: int | None = None,
    loss_chunk: int | None = None,
    remat: bool | None = None,
    weight_decay_pattern: Sequence[str] | None = WEIGHT_DECAY_PATTERN,
    optimizer: Any = None,
    metrics: Any = "accuracy",
    **kwargs: Any,
) -> keras.Model:
    """Compile a pretraining model with `AdamWarmup` and the losses of its heads: `PretrainingLoss`, `ReplacedTokenLoss` for "rtd".

    Args:
        model: from `get_model(training=True)`, or from `from_pretrained` with an MLM head. Any other functional model with these
            heads as outputs, such as one that Keras loaded from keras_bert's `.h5` file or built from a model's inputs and outputs,
            trains with the same losses, computed from its probabilities at all positions.
        weight_decay: decoupled weight decay, multiplied by the learning rate; 0 for none.
        decay_steps: optimizer steps after which the learning rate is 0.
        warmup_steps: warm-up steps.
        learning_rate: peak learning rate.
        max_predictions: maximum number of positions per example at which the MLM head is computed; more masked positions in an
            example are an error. None computes it at all positions, as keras_bert does, at several times the cost.
        loss_chunk: number of positions of a batch whose MLM logits are in memory at once, such as 256; None for all. This avoids an
            array of (positions, vocabulary) at the cost of a third more computation in the head. Metrics of the MLM head must then
            be accuracies, `Perplexity` or others that take log-probabilities.
        remat: store only the input of every encoder block for the backward pass and recompute the rest: less memory, up to a third
            more computation. None leaves `model.remat` unchanged.
        weight_decay_pattern: substrings of the paths of the variables that decay; None for all, as in keras_bert 0.89.
        optimizer: an optimizer to use instead of `AdamWarmup` and its arguments.
        metrics: as for `model.compile`; they get the masked positions of all examples, concatenated, as probabilities, or as logits
            if all metrics of a head are accuracies or have a true attribute `takes_logits`, such as `Perplexity`. A single name
            applies to every head.
        **kwargs: `lr` (another name of `learning_rate`), and further arguments of `model.compile`.

    Returns:
        The model.

    Raises:
        ValueError: `max_predictions`, `loss_chunk`, `remat` or a metric that takes logits is given for a model that is not a
            `PretrainingModel`; the outputs are neither probabilities nor logits; or one of Keras's optimizers is to clip or
            accumulate under `distribute("mirrored")`.
    """
    learning_rate = kwargs.pop("lr", learning_rate)
    if optimizer is None:
        optimizer = AdamWarmup(
            decay_steps=decay_steps,
            warmup_steps=warmup_steps,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            weight_decay_pattern=weight_decay_pattern,
        )
    heads = _heads_of(model)
    if isinstance(model, PretrainingModel):
        mlm_arguments: dict[str, Any] = {"max_predictions": max_predictions, "chunk": loss_chunk}
        loss = [_loss_of(head, **mlm_arguments if head == "MLM" else {}) for head in heads]
    else:
        _check_unset(model, max_predictions=max_predictions, loss_chunk=loss_chunk, remat=remat or None)
        _check_metrics_take_probabilities(metrics)
        loss = [_loss_of(head, from_logits=_known_answer(model, head) == LOGITS) for head in heads]
    if isinstance(metrics, str):
        metrics = [_metrics_of(head, metrics, heads) for head in heads]
    elif isinstance(metrics, tuple):
        metrics = list(metrics)
    if len(heads) == 1:
        loss = loss[0]
    scales_loss = model.dtype_policy.name == "mixed_float16" and kwargs.get("auto_scale_loss", True)
    optimizer = whole_batch_optimizer(optimizer, scales_loss)
    if remat is not None:
        model.remat = remat
    model.compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
    return model


def _loss_of(head, **arguments):
    """The loss of an output: binary cross entropy for replaced tokens, a mean for outputs that are losses, else cross entropy;
    none for sampled tokens."""
    kind = _kind_of(head)
    if kind == "losses":
        from keras_bert_rebuild.training.task_losses import DistilledLoss

        return DistilledLoss()
    if kind == "tokens":
        return None
    return ReplacedTokenLoss() if head == RTD else PretrainingLoss(**arguments)


def _metrics_of(head, name, heads):
    """The metrics of an output, from one name for all outputs; with sampled tokens also the fraction of replaced ones."""
    if _kind_of(head) != "answers":
        return None
    if (head, name) != (RTD, "accuracy"):
        return name
    sampled = any(_kind_of(other) == "tokens" for other in heads)
    return [ReplacedTokenAccuracy(), ReplacedTokenShare()] if sampled else ReplacedTokenAccuracy()


def _kind_of(head):
    """Whether an output is answers to labels, losses that the model has computed, or tokens that it has sampled."""
    if head in LABELLED:
        return "answers"
    # Only models with other outputs need these.
    from keras_bert_rebuild.models.distillation_objectives import IMITATED
    from keras_bert_rebuild.models.replaced_token_model import TOKENS

    return "losses" if head in IMITATED else "tokens" if head == TOKENS else "answers"


def _heads_of(model):
    if not getattr(model, "output_names", None):
        raise ValueError(f"compile_model must have a functional model, whose outputs have names; got a {type(model).__name__}.")
    return model.output_names


def _check_unset(model, **arguments):
    """Raise a ValueError for arguments that need the training step of a `PretrainingModel`."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None except for a PretrainingModel, from get_model or from_pretrained, which also reads "
                f"keras_bert's .h5 files; got {name}={value} with a {type(model).__name__}."
            )


def _check_metrics_take_probabilities(metrics):
    for metric in keras.tree.flatten(metrics):
        if takes_logits(metric):
            raise ValueError(f"metrics must take the model's outputs, unless it is a PretrainingModel; got {metric.name}.")


def _known_answer(model, head):
    answer = answer_of(model, head)
    if answer in (None, CHAINS):
        layer = type(model.get_layer(head)).__name__
        raise ValueError(
            "compile_model must have outputs of layers with a softmax, or of dense layers without activation; "
            f"got {head}, the output of a {layer}: pass suitable losses to model.compile."
        )
    return answer
