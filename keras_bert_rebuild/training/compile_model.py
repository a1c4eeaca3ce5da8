"""keras_bert's `compile_model`."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert_rebuild.models.head_answers import CHAINS, LOGITS, answer_of
from keras_bert_rebuild.models.loss_protocols import takes_logits
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.training.losses import PretrainingLoss
from keras_bert_rebuild.training.optimizer import AdamWarmup
from keras_bert_rebuild.training.whole_batch import of_whole_batch

# Substrings of the paths of the variables that decay: tables and kernels, neither biases nor gamma and beta. keras_bert's names of
# the kernels are kept beside ours, so that the list can be handed to either.
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
    """Compile a pretraining model with `AdamWarmup` and the losses of its heads.

    Args:
        model: as from `get_model(training=True)`, or with an MLM head and others as from `from_pretrained`. Any other functional
            model whose outputs are those heads trains with the same losses, computed of its probabilities, at all positions:
            one that Keras made of keras_bert's `.h5` file, or of the inputs and outputs of a model.
        weight_decay: share of a weight taken away at a rate of 1; 0 for none.
        decay_steps: optimizer steps after which the learning rate is 0.
        warmup_steps: optimizer steps of rising rate.
        learning_rate: rate at the top.
        max_predictions: positions of an example that the MLM head is computed at. None computes it at all positions, as keras_bert
            does, at several times the cost; a batch with more masked positions than this is an error.
        loss_chunk: positions of a batch whose logits of the MLM head are held at once, about 256; None for all. It saves the memory
            of (positions, vocabulary) and costs a third of the head's work. Metrics of the MLM head are then accuracies,
            `Perplexity` and what else takes log-probabilities.
        remat: keep only the input of every encoder block for the backward pass and compute the rest again: less memory, up to a
            third more work. None leaves the model as it is (`model.remat`).
        weight_decay_pattern: substrings of the paths of the variables that decay; None for all, which is what keras_bert 0.89 did.
        optimizer: one of your own, instead of `AdamWarmup` and the arguments above.
        metrics: as for `model.compile`, at the masked positions, which stand one behind the other whatever example they are of;
            they are given probabilities, or logits where all of a head are accuracies or have a true attribute `takes_logits`, such
            as `Perplexity`. A single word counts for every head.
        **kwargs: `lr` (another name of `learning_rate`), and further arguments of `model.compile`.

    Returns:
        The model.

    Raises:
        ValueError: `max_predictions`, `loss_chunk`, `remat` or a metric that takes logits for a model that is no
            `PretrainingModel`; one whose outputs are neither probabilities nor logits; an optimizer of Keras's that clips or
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
        of_mlm: dict[str, Any] = {"max_predictions": max_predictions, "chunk": loss_chunk}
        loss = [PretrainingLoss(**of_mlm if head == "MLM" else {}) for head in heads]
    else:
        _check_is_not_asked_for(model, max_predictions=max_predictions, loss_chunk=loss_chunk, remat=remat or None)
        _check_metrics_take_probabilities(metrics)
        loss = [PretrainingLoss(from_logits=_known_answer(model, head) == LOGITS) for head in heads]
    if isinstance(metrics, str):
        metrics = [metrics] * len(heads)
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


def _heads_of(model):
    if not getattr(model, "output_names", None):
        raise ValueError(f"compile_model must have a functional model, whose outputs have names; got a {type(model).__name__}.")
    return model.output_names


def _check_is_not_asked_for(model, **arguments):
    """Refuse what only the step of a `PretrainingModel` can do."""
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{name} must be left out except for a PretrainingModel, as get_model and from_pretrained make one, the latter of "
                f"keras_bert's .h5 files too; got {name}={value} with a {type(model).__name__}."
            )


def _check_metrics_take_probabilities(metrics):
    for metric in keras.tree.flatten(metrics):
        if takes_logits(metric):
            raise ValueError(f"metrics must take what the model answers with, unless it is a PretrainingModel; got {metric.name}.")


def _known_answer(model, head):
    answer = answer_of(model, head)
    if answer in (None, CHAINS):
        layer = type(model.get_layer(head)).__name__
        raise ValueError(
            "compile_model must see whether an output is of a layer with a softmax or of a dense one without activation; got "
            f"{head}, of a {layer}: give model.compile the losses that fit."
        )
    return answer
