"""What the heads of a model return, logits or probabilities, and which losses and metrics fit that."""

import inspect

import keras
from keras import ops

from keras_bert_rebuild.layers import ConditionalRandomField, EmbeddingSimilarity, Masked
from keras_bert_rebuild.models.loss_protocols import FromLogits, TakesChains, TakesLogProbabilities, takes_logits

PROBABILITIES, LOGITS, LOG_PROBABILITIES = "probabilities", "logits", "log-probabilities"
CHAINS = "the outputs of a ConditionalRandomField"

# Metrics that depend only on which class has the largest value, so that logits and probabilities will both do.
ACCURACIES = ("accuracy", "acc", "sparse_categorical_accuracy")


def answer_of(model, head):
    """What an output of a functional model holds, by its last layer.

    Args:
        model: a functional model.
        head: one of its `output_names`.

    Returns:
        `PROBABILITIES` after a softmax, `LOGITS` after a dense layer without activation, `CHAINS` after a random field, None
        if the layer does not show it.
    """
    layer = model.get_layer(head)
    if isinstance(layer, Masked):  # passes on the outputs of another layer
        layer = next((other for other in model.layers if other.output is layer.input[0]), layer)
    if isinstance(layer, (EmbeddingSimilarity, keras.layers.Softmax)):
        return PROBABILITIES
    if isinstance(layer, ConditionalRandomField):
        return CHAINS
    activation = getattr(layer, "output_activation", getattr(layer, "activation", None))
    if activation is keras.activations.softmax:
        return PROBABILITIES
    return LOGITS if isinstance(layer, keras.layers.Dense) and activation is keras.activations.linear else None


def check_losses(heads, loss, answer):
    """Refuse a loss that would take logits for probabilities, or probabilities for logits, and silently return a number.

    Args:
        heads: the names of the outputs.
        loss: as for `keras.Model.compile`.
        answer: a function of a head and its loss that returns what the head returns; None if it is not known.

    Raises:
        ValueError: such a loss.
    """
    if isinstance(loss, dict):
        losses = {head: loss.get(head) for head in heads}
    elif isinstance(loss, (list, tuple)):
        losses = dict(zip(heads, loss, strict=False))  # Keras says what is missing
    else:
        losses = dict.fromkeys(heads, loss)
    for head, head_loss in losses.items():
        taken, given = _taken(head_loss), answer(head, head_loss)
        if None not in (taken, given) and taken != given:
            name = head_loss if isinstance(head_loss, str) else getattr(head_loss, "__name__", type(head_loss).__name__)
            wanted = "ConditionalRandomFieldLoss" if given == CHAINS else f"from_logits={given == LOGITS}"
            raise ValueError(
                f"the loss of {head} must take {given}, which the head returns ({wanted}); got {name}, which takes {taken}."
            )


def takes_ids(loss):
    """Whether the labels of a loss are ids: one of ours, or the sparse cross-entropy of Keras. Any other loss, such as one against
    the probabilities of a teacher, defines its own labels."""
    if loss is None or takes_logits(loss):
        return loss is not None
    loss = keras.losses.get(loss)
    sparse = keras.losses.SparseCategoricalCrossentropy
    return isinstance(loss, sparse) or loss is keras.losses.sparse_categorical_crossentropy


def needs_of(head, metrics):
    """What the metrics of one head need, all of them.

    A metric that `TakesLogits` takes logits, and if it `TakesLogProbabilities` those whose exponentials sum to 1; an accuracy takes
    anything; an unknown metric takes probabilities.

    Args:
        head: its name, for the error.
        metrics: the metrics, names or objects.

    Returns:
        `PROBABILITIES`, `LOGITS` or `LOG_PROBABILITIES`; None if anything will do.

    Raises:
        ValueError: some take probabilities and some logits.
    """
    demanding = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
    with_logits = [metric for metric in demanding if takes_logits(metric)]
    others = [metric for metric in demanding if not takes_logits(metric)]
    if not demanding:
        return None
    if with_logits and others:
        raise ValueError(
            f"metrics of {head}: expected metrics that all take logits or all take probabilities; got {_names(with_logits)}, which "
            f"take logits, and {_names(others)}."
        )
    if others:
        return PROBABILITIES
    normalised = any(isinstance(metric, TakesLogProbabilities) and metric.takes_log_probabilities for metric in with_logits)
    return LOG_PROBABILITIES if normalised else LOGITS


def check_needs_no_vocabulary(head, metrics):
    """Refuse metrics that need the whole vocabulary if the loss never has it at once."""
    if needs_of(head, metrics) == PROBABILITIES:
        wrong = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
        raise ValueError(
            f"metrics of {head}: with a loss in chunks expected accuracies and metrics that take log-probabilities, such as "
            f"Perplexity; got {_names(wrong)}, which need the probability of every token: compile with loss_chunk=None."
        )


def as_needed(output, given, need):
    """An output in the form that metrics need.

    Args:
        output: `(..., classes)`.
        given: what it is, `LOGITS` or `PROBABILITIES`.
        need: as from `needs_of`.
    """
    if need is None:
        return output
    if given == PROBABILITIES:
        return output if need == PROBABILITIES else log_of(output)
    return {PROBABILITIES: ops.softmax, LOGITS: ops.copy, LOG_PROBABILITIES: ops.log_softmax}[need](output)


def log_of(probabilities):
    """Logarithms of probabilities, also finite for 0: logits with these probabilities as softmax."""
    return ops.log(ops.maximum(probabilities, 1e-37))


def _taken(loss):
    """What a loss takes, logits or probabilities; None if it does not say."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, TakesChains) and loss.takes_chains:
        return CHAINS
    from_logits = loss.from_logits if isinstance(loss, FromLogits) else None
    if inspect.isfunction(loss) and "from_logits" in inspect.signature(loss).parameters:
        from_logits = inspect.signature(loss).parameters["from_logits"].default
    return {True: LOGITS, False: PROBABILITIES}.get(from_logits)


def _is_accuracy(metric):
    return metric in ACCURACIES if isinstance(metric, str) else type(metric) is keras.metrics.SparseCategoricalAccuracy


def _names(metrics):
    return ", ".join(metric if isinstance(metric, str) else getattr(metric, "name", repr(metric)) for metric in metrics)
