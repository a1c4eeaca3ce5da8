"""What the metrics of a head are to be given: logits, their logarithms normalised, or probabilities."""

import keras

PROBABILITIES, LOGITS, LOG_PROBABILITIES = "probabilities", "logits", "log-probabilities"

# Words and classes that look only at which class is the greatest, so that anything monotonic will do.
ONLY_THE_GREATEST = ("accuracy", "acc", "sparse_categorical_accuracy")


def needs_of(head, metrics):
    """What the metrics of one head need, all of them.

    A metric with a true attribute `takes_logits` takes logits, and if it has a true `takes_log_probabilities` those whose
    exponentials sum to 1; an accuracy takes anything; what is not known wants probabilities.

    Args:
        head: its name, for the error.
        metrics: the metrics, words or objects.

    Returns:
        `PROBABILITIES`, `LOGITS` or `LOG_PROBABILITIES`; None where anything will do.

    Raises:
        ValueError: some want probabilities and some logits.
    """
    demanding = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
    with_logits = [metric for metric in demanding if getattr(metric, "takes_logits", False)]
    others = [metric for metric in demanding if not getattr(metric, "takes_logits", False)]
    if not demanding:
        return None
    if with_logits and others:
        raise ValueError(
            f"metrics of {head}: expected metrics that all take logits or all take probabilities; got {_names(with_logits)}, which "
            f"take logits, beside {_names(others)}."
        )
    if others:
        return PROBABILITIES
    normalised = any(getattr(metric, "takes_log_probabilities", False) for metric in with_logits)
    return LOG_PROBABILITIES if normalised else LOGITS


def check_needs_no_vocabulary(head, metrics):
    """Refuse metrics that look at the whole vocabulary where the loss never has it at once."""
    if needs_of(head, metrics) == PROBABILITIES:
        wrong = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
        raise ValueError(
            f"metrics of {head}: with a loss in chunks expected accuracies and metrics that take log-probabilities, such as "
            f"Perplexity; got {_names(wrong)}, which need the probability of every token: compile with loss_chunk=None."
        )


def _is_accuracy(metric):
    return metric in ONLY_THE_GREATEST if isinstance(metric, str) else type(metric) is keras.metrics.SparseCategoricalAccuracy


def _names(metrics):
    return ", ".join(metric if isinstance(metric, str) else getattr(metric, "name", repr(metric)) for metric in metrics)
