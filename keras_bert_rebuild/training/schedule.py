"""How many optimizer steps a training has."""


def calc_train_steps(num_example: int, batch_size: int, epochs: int, warmup_proportion: float = 0.1) -> tuple[int, int]:
    """Steps in all and steps of warm-up.

    Args:
        num_example: examples of an epoch; a last batch that is not full counts as a step.
        batch_size: examples per step.
        epochs: passes over the examples.
        warmup_proportion: part of the steps, in [0, 1], during which the learning rate rises.

    Returns:
        `(total steps, warm-up steps)`.

    Example:

    >>> calc_train_steps(num_example=1024, batch_size=32, epochs=10, warmup_proportion=0.1)
    (320, 32)
    """
    steps = (num_example + batch_size - 1) // batch_size * epochs
    return steps, int(steps * warmup_proportion)
