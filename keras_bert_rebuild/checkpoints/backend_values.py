"""Values of variables that are loaded, without a second copy of the model in memory.

A backend writes zeros into a new variable and copies an array that is assigned to it, so that loading BERT-base would take one
and a half times its size. If a backend can avoid that, `kernels/table.py` has a kernel for it.
"""

from keras import ops

from keras_bert_rebuild.kernels.table import choose


def unwritten(shape, dtype):
    """A tensor of arbitrary values for a variable that is about to be filled; it takes no memory until then.

    Args:
        shape: of the tensor.
        dtype: of its numbers, in Keras's spelling.
    """
    kernel = choose("unwritten")
    return ops.empty(shape, dtype) if kernel is None else kernel(shape, dtype)


def handed_over(array):
    """What to assign to a variable for an array that no one else will write: the array itself if the backend copies it anyway."""
    kernel = choose("handed_over")
    return array if kernel is None else kernel(array)
