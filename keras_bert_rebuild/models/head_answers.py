"""What the heads of a model answer with, logits or probabilities, and which losses and metrics fit that."""

import inspect

import keras
from keras import ops

from keras_bert_rebuild.layers import ConditionalRandomField, EmbeddingSimilarity, Masked
from keras_bert_rebuild.models.loss_protocols import FromLogits, TakesChains, TakesLogProbabilities, takes_logits

PROBABILITIES, LOGITS, LOG_PROBABILITIES = "probabilities", "logits", "log-probabilities"
CHAINS = "the outputs of a ConditionalRandomField"

# Words and classes that look only at which class is the greatest, so that anything monotonic will do.
ONLY_THE_GREATEST = ("accuracy", "acc", "sparse_categorical_accuracy")


def answer_of(model, head):
    """What an output of a functional model holds, which its last layer tells.

    Args:
        model: a functional model.
        head: one of its `output_names`.

    Returns:
        `PROBABILITIES` behind a softmax, `LOGITS` behind a dense layer without activation, `CHAINS` behind a random field, None
        where the layer does not tell.
    """
    layer = model.get_layer(head)
    if isinstance(layer, Masked):  # passes on what another layer answers with
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
    """Refuse a loss that would take logits for probabilities, or probabilities for logits, and answer with a number all the same.

    Args:
        heads: the names of the outputs.
        loss: as for `keras.Model.compile`.
        answer: a function of a head and its loss, which says what the head answers with; None where it is not known.

    Raises:
        ValueError: such a loss.
    """
    if isinstance(loss, dict):
        losses = {head: loss.get(head) for head in heads}
    elif isinstance(loss, (list, tuple)):
        losses = dict(zip(heads, loss, strict=False))  # Keras says what is missing
    else:
        losses = dict.fromkeys(heads, loss)
    for head, own in losses.items():
        taken, given = _taken(own), answer(head, own)
        if None not in (taken, given) and taken != given:
            name = own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)
            wanted = "ConditionalRandomFieldLoss" if given == CHAINS else f"from_logits={given == LOGITS}"
            raise ValueError(
                f"the loss of {head} must take {given}, which it answers with ({wanted}); got {name}, which takes {taken}."
            )


def takes_ids(loss):
    """Whether the labels of a loss are ids: one of ours, or the sparse cross-entropy of Keras. Any other loss, such as one against
    the probabilities of a teacher, says by itself what its labels are."""
    if loss is None or takes_logits(loss):
        return loss is not None
    loss = keras.losses.get(loss)
    sparse = keras.losses.SparseCategoricalCrossentropy
    return isinstance(loss, sparse) or loss is keras.losses.sparse_categorical_crossentropy


def needs_of(head, metrics):
    """What the metrics of one head need, all of them.

    A metric that `TakesLogits` takes logits, and if it `TakesLogProbabilities` those whose exponentials sum to 1; an accuracy takes
    anything; what is not known wants probabilities.

    Args:
        head: its name, for the error.
        metrics: the metrics, words or objects.

    Returns:
        `PROBABILITIES`, `LOGITS` or `LOG_PROBABILITIES`; None where anything will do.

    Raises:
        ValueError: some want probabilities and some logits.
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
    """Refuse metrics that look at the whole vocabulary where the loss never has it at once."""
    if needs_of(head, metrics) == PROBABILITIES:
        wrong = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
        raise ValueError(
            f"metrics of {head}: with a loss in chunks expected accuracies and metrics that take log-probabilities, such as "
            f"Perplexity; got {_names(wrong)}, which need the probability of every token: compile with loss_chunk=None."
        )


def as_needed(answer, given, need):
    """An answer in the form that metrics need.

    Args:
        answer: `(..., classes)`.
        given: what it is, `LOGITS` or `PROBABILITIES`.
        need: as from `needs_of`.
    """
    if need is None:
        return answer
    if given == PROBABILITIES:
        return answer if need == PROBABILITIES else log_of(answer)
    return {PROBABILITIES: ops.softmax, LOGITS: ops.copy, LOG_PROBABILITIES: ops.log_softmax}[need](answer)


def log_of(probabilities):
    """Their logarithms, finite for 0 too: logits whose softmax they are."""
    return ops.log(ops.maximum(probabilities, 1e-37))


def _taken(loss):
    """What a loss takes, if it is one of those for which that is a question."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, TakesChains) and loss.takes_chains:
        return CHAINS
    from_logits = loss.from_logits if isinstance(loss, FromLogits) else None
    if inspect.isfunction(loss) and "from_logits" in inspect.signature(loss).parameters:
        from_logits = inspect.signature(loss).parameters["from_logits"].default
    return {True: LOGITS, False: PROBABILITIES}.get(from_logits)


def _is_accuracy(metric):
    return metric in ONLY_THE_GREATEST if isinstance(metric, str) else type(metric) is keras.metrics.SparseCategoricalAccuracy


def _names(metrics):
    return ", ".join(metric if isinstance(metric, str) else getattr(metric, "name", repr(metric)) for metric in metrics)
