"""Values of variables that are loaded, without a second copy of the model in memory.

A backend writes zeros into a new variable and copies an array that is assigned to it, so that BERT-base would take one and a half
times its size to load. Where a backend offers a way around that, `kernels/table.py` names it.
"""

from keras import ops

from keras_bert_rebuild.kernels.table import choose


def unwritten(shape, dtype):
    """A tensor of any values for a variable that is about to be filled; it takes no room until then.

    Args:
        shape: of the tensor.
        dtype: of its numbers, as Keras spells it.
    """
    kernel = choose("unwritten")
    return ops.empty(shape, dtype) if kernel is None else kernel(shape, dtype)


def handed_over(array):
    """What to assign to a variable for an array that nobody else will write: itself where the backend copies it anyway."""
    kernel = choose("handed_over")
    return array if kernel is None else kernel(array)
