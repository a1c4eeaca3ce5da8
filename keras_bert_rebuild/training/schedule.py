"""The number of optimizer steps of a training."""


def calc_train_steps(num_example: int, batch_size: int, epochs: int, warmup_proportion: float = 0.1) -> tuple[int, int]:
    """The total number of steps and the number of warm-up steps.

    Args:
        num_example: examples in an epoch; a last batch that is not full counts as a step.
        batch_size: examples per step.
        epochs: number of epochs.
        warmup_proportion: fraction of the steps, in [0, 1], during which the learning rate rises.

    Returns:
        `(total steps, warm-up steps)`.

    Example:

    >>> calc_train_steps(num_example=1024, batch_size=32, epochs=10, warmup_proportion=0.1)
    (320, 32)
    """
    steps = (num_example + batch_size - 1) // batch_size * epochs
    return steps, int(steps * warmup_proportion)
