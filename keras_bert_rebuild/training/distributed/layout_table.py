"""The axis along which each weight is split across devices, as a table of path patterns."""

import re

import keras

from keras_bert_rebuild.anatomy.part import MODEL
from keras_bert_rebuild.anatomy.parts import every_part

# Axes of the mesh: replicas have parts of the batch, the devices of a replica have parts of the weights.
BATCH = "batch"


def _table():
    """Pattern of a whole path, and the possible splits by the anatomy; weights of a layer with the same splits share a row."""
    roles = {}
    for part in every_part():
        for weight in part.weights:
            if weight.cut:
                module, _, name = weight.role.rpartition("/")
                roles.setdefault((part.layer, name, weight.cut), []).append(module)
    rows = []
    for (layer, name, cut), modules in roles.items():
        middle = f"{modules[0]}/" if len(modules) == 1 else f"({'|'.join(modules)})/"
        pattern = layer.replace("{n}", r"\d+") + "/" + (middle if modules[0] else "") + name
        rows.append((pattern, cut))
    return tuple(rows)


# A weight without a row, or whose shape no split divides, is whole on every device.
LAYOUT = _table()


def axes_of(path, shape, model_devices):
    """The axes along which a weight is split, by the table; None in every dimension that is whole.

    Args:
        path: the path of the variable.
        shape: its shape.
        model_devices: number of devices that share the weights of one replica.

    Example:

    >>> axes_of("Embedding-Token/embeddings", (30522, 768), 2), axes_of("Embedding-Token/embeddings", (30522, 768), 4)
    (('model', None), (None, 'model'))
    """
    choices = next((choices for pattern, choices in LAYOUT if re.fullmatch(pattern, path)), ())
    whole = (None,) * len(shape)
    return next((axes for axes in choices if _divides(axes, shape, model_devices)), whole)


class ByTable(keras.distribution.ModelParallel):
    """`keras.distribution.ModelParallel` with the table as its `LayoutMap`, which checks that the shape of a weight can be split.

    Args:
        mesh: a `keras.distribution.DeviceMesh` with the axes "batch" and "model".
    """

    def __init__(self, mesh):
        rows = keras.distribution.LayoutMap(mesh)
        for pattern, choices in LAYOUT:
            rows[pattern] = choices[0]
        # Every process provides its own rows of a batch, which Keras must not shard.
        super().__init__(layout_map=rows, batch_dim_name=BATCH, auto_shard_dataset=False)
        self.model_devices = dict(zip(mesh.axis_names, mesh.shape, strict=True))[MODEL]

    def get_variable_layout(self, variable):
        layout = super().get_variable_layout(variable)
        if _divides(layout.axes, variable.shape, self.model_devices):
            return layout
        return keras.distribution.TensorLayout(axes_of(variable.path, variable.shape, self.model_devices), self.device_mesh)


def _divides(axes, shape, model_devices):
    return all(axis is None or size % model_devices == 0 for axis, size in zip(axes, shape, strict=True))
