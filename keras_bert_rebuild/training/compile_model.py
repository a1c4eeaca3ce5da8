"""keras_bert's `compile_model`."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild.anatomy.heads import HEADS
from keras_bert_rebuild.models.distillation_objectives import IMITATED
from keras_bert_rebuild.models.head_answers import CHAINS, LOGITS, answer_of
from keras_bert_rebuild.models.loss_protocols import takes_logits
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.replaced_token_model import TOKENS
from keras_bert_rebuild.training.distilled_loss import DistilledLoss
from keras_bert_rebuild.training.losses import PretrainingLoss, ReplacedTokenAccuracy, ReplacedTokenLoss, ReplacedTokenShare
from keras_bert_rebuild.training.optimizers.adam_warmup import AdamWarmup
from keras_bert_rebuild.training.optimizers.whole_batch import of_whole_batch

RTD = HEADS["rtd"].layer

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
        model: as from `get_model(training=True)`, or with an MLM head and others as from `from_pretrained`. Any other functional
            model whose outputs are those heads trains with the same losses, computed from its probabilities, at all positions:
            one that Keras loaded from keras_bert's `.h5` file, or built from the inputs and outputs of a model.
        weight_decay: fraction of a weight subtracted at a rate of 1; 0 for none.
        decay_steps: optimizer steps after which the learning rate is 0.
        warmup_steps: optimizer steps of rising rate.
        learning_rate: maximum rate.
        max_predictions: number of positions of an example at which the MLM head is computed. None computes it at all positions, as
            keras_bert does, at several times the cost; a batch with more masked positions than this is an error.
        loss_chunk: number of positions of a batch whose logits of the MLM head are in memory at once, about 256; None for all. It
            saves the memory of (positions, vocabulary) and adds a third to the computation of the head. Metrics of the MLM head are
            then accuracies, `Perplexity` and others that take log-probabilities.
        remat: store only the input of every encoder block for the backward pass and recompute the rest: less memory, up to a third
            more computation. None does not change the model (`model.remat`).
        weight_decay_pattern: substrings of the paths of the variables that decay; None for all, which is what keras_bert 0.89 did.
        optimizer: one of your own, instead of `AdamWarmup` and the arguments above.
        metrics: as for `model.compile`, at the masked positions of all examples, concatenated; they receive probabilities, or
            logits if all metrics of a head are accuracies or have a true attribute `takes_logits`, such as `Perplexity`. A single
            name applies to every head.
        **kwargs: `lr` (another name of `learning_rate`), and further arguments of `model.compile`.

    Returns:
        The model.

    Raises:
        ValueError: `max_predictions`, `loss_chunk`, `remat` or a metric that takes logits for a model that is not a
            `PretrainingModel`; a model whose outputs are neither probabilities nor logits; an optimizer of Keras that clips or
            accumulates under `distribute("mirrored")`.
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
    optimizer = of_whole_batch(optimizer, scales_loss)
    if remat is not None:
        model.remat = remat
    model.compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)
    return model


def _loss_of(head, **arguments):
    """The loss of an output: a token is replaced or not, losses of positions have a mean, anything else is one of several classes;
    tokens have none."""
    if head == TOKENS:
        return None
    if head in IMITATED:
        return DistilledLoss()
    return ReplacedTokenLoss() if head == RTD else PretrainingLoss(**arguments)


def _metrics_of(head, name, heads):
    """The metrics of an output by a name for all of them; where tokens are sampled, the share of replaced ones is one."""
    if head in (TOKENS, *IMITATED):
        return None
    if (head, name) != (RTD, "accuracy"):
        return name
    return [ReplacedTokenAccuracy(), ReplacedTokenShare()] if TOKENS in heads else ReplacedTokenAccuracy()


def _heads_of(model):
    if not getattr(model, "output_names", None):
        raise ValueError(f"compile_model must have a functional model, whose outputs have names; got a {type(model).__name__}.")
    return model.output_names


def _check_unset(model, **arguments):
    """Raise a ValueError for arguments that need the training step of a `PretrainingModel`."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None except for a PretrainingModel, as from get_model and from_pretrained, the latter also for "
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
            "every output must be that of a layer with a softmax or of a dense layer without activation for compile_model; got "
            f"{head}, of a {layer}: pass suitable losses to model.compile."
        )
    return answer
