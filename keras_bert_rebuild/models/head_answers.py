"""What the heads of a model answer with, logits or probabilities, and which losses fit that."""

import inspect

import keras

from keras_bert_rebuild.layers import ConditionalRandomField, EmbeddingSimilarity, Masked
from keras_bert_rebuild.models.metric_needs import LOGITS, PROBABILITIES

# What a `ConditionalRandomField` answers with, and the loss of one takes, which says so by a true attribute `takes_chains`.
CHAINS = "the outputs of a ConditionalRandomField"


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


def _taken(loss):
    """What a loss takes, if it is one of those for which that is a question."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if getattr(loss, "takes_chains", False):
        return CHAINS
    from_logits = getattr(loss, "from_logits", None)
    if inspect.isfunction(loss) and "from_logits" in inspect.signature(loss).parameters:
        from_logits = inspect.signature(loss).parameters["from_logits"].default
    return {True: LOGITS, False: PROBABILITIES}.get(from_logits)
