"""Our modules, filled with names, and their layout in the arrays of other formats."""

import numpy as np
import pytest

from keras_bert_rebuild.checkpoints.table import Module, Naming, Row, dense, embedding, fused, norm, tied, under
from keras_bert_rebuild.checkpoints.transfer import arrays_to_write, load_variables

pytestmark = pytest.mark.backend

PYTORCH = Naming(
    {"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"}, {"kernel": "transposed"}
)
TENSORFLOW = Naming({"kernel": "/kernel", "bias": "/bias"})
GATE, UP = dense("Block-{block}/gate"), dense("Block-{block}/up")


class Variable:
    """What the tables need of a variable."""

    def __init__(self, path, value):
        self.path, self.shape, self.value = path, value.shape, value

    def assign(self, value):
        assert value.shape == self.shape
        self.value = np.array(value)


class Arrays:
    """A file in memory."""

    def __init__(self, arrays):
        self.arrays, self.names = arrays, sorted(arrays)

    def shape(self, name):
        return self.arrays[name].shape

    def dtype(self, name):
        return self.arrays[name].dtype.name

    def read(self, name):
        return self.arrays[name]


def table_of(naming, block):
    return naming.table(embeddings={}, block=block, heads={})


def there_and_back(table, shapes, rng):
    """The arrays that variables of these shapes are written as, after loading them into other variables."""
    variables = [Variable(path, rng.normal(size=shape).astype("float32")) for path, shape in shapes.items()]
    rows = table.rows(1)
    arrays = dict(arrays_to_write(variables, rows))
    empty = [Variable(path, np.zeros(shape, "float32")) for path, shape in shapes.items()]
    load_variables(empty, Arrays(arrays), table, rows)
    for before, after in zip(variables, empty, strict=True):
        np.testing.assert_array_equal(before.value, after.value, err_msg=before.path)
    return arrays, {variable.path: variable.value for variable in variables}


def test_modules_are_rows_under_the_names_of_a_format():
    names = {
        embedding("Table"): "tok",
        embedding("Places", layout="positions"): "pos",
        norm("Norm"): "ln",
        norm("Bare", bias=False): "rms",
        dense("Layer"): "fc",
        tied(Module(("Layer",), ("bias",))): "old",
    }
    assert PYTORCH.rows(under("model.", names)) == (
        Row("Table/embeddings", "model.tok.weight", "same"),
        Row("Places/embeddings", "model.pos.weight", "positions"),
        Row("Norm/gamma", "model.ln.weight", "same"),
        Row("Norm/beta", "model.ln.bias", "same"),
        Row("Bare/gamma", "model.rms.weight", "same"),
        Row("Layer/kernel", "model.fc.weight", "transposed"),
        Row("Layer/bias", "model.fc.bias", "same"),
        Row("Layer/bias", "model.old.bias", "same", "read"),
    )


@pytest.mark.parametrize("first", [GATE, UP], ids=["gate first", "up first"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_the_halves_of_a_gated_block_have_the_order_of_the_table(rng, first, has_bias):
    second = UP if first is GATE else GATE
    table = table_of(
        PYTORCH,
        {fused(first, second): "layers.{layer}.mlp.Wi", dense("Block-{block}/down", bias=has_bias): "layers.{layer}.mlp.Wo"},
    )
    shapes = {"Block-1/gate/kernel": (4, 5), "Block-1/up/kernel": (4, 5), "Block-1/down/kernel": (5, 4)}
    if has_bias:
        shapes |= {"Block-1/gate/bias": (5,), "Block-1/up/bias": (5,), "Block-1/down/bias": (4,)}
    arrays, values = there_and_back(table, shapes, rng)
    names = [layer.layers[0].format(block=1) for layer in (first, second)]
    np.testing.assert_array_equal(arrays["layers.0.mlp.Wi.weight"], np.concatenate([values[f"{name}/kernel"].T for name in names]))
    assert ("layers.0.mlp.Wi.bias" in arrays) == has_bias
    if has_bias:
        np.testing.assert_array_equal(arrays["layers.0.mlp.Wi.bias"], np.concatenate([values[f"{name}/bias"] for name in names]))


@pytest.mark.parametrize(("naming", "axis"), [(PYTORCH, 0), (TENSORFLOW, 1)], ids=["transposed", "same"])
def test_parts_of_unequal_widths_are_joined_on_the_output_axis(rng, naming, axis):
    layers = [dense(f"Block-{{block}}/{part}") for part in ("query", "key", "value")]
    shapes = {"Block-1/query/kernel": (4, 6), "Block-1/key/kernel": (4, 2), "Block-1/value/kernel": (4, 2)}
    arrays, values = there_and_back(table_of(naming, {fused(*layers): "{layer}.qkv"}), shapes, rng)
    (array,) = arrays.values()
    assert array.shape == ((10, 4) if axis == 0 else (4, 10))
    key = values["Block-1/key/kernel"]
    np.testing.assert_array_equal(np.take(array, [6, 7], axis), key.T if axis == 0 else key)


def test_a_file_may_have_separate_and_joined_parts_if_both_are_the_same(rng):
    table = table_of(PYTORCH, {fused(GATE, UP): "Wi", tied(GATE): "gate", tied(UP): "up"})
    variables = [Variable(f"Block-1/{part}/kernel", np.zeros((3, 2), "float32")) for part in ("gate", "up")]
    joined = rng.normal(size=(4, 3)).astype("float32")
    apart = {"gate.weight": joined[:2], "up.weight": joined[2:]}
    for arrays in ({"Wi.weight": joined}, apart, {"Wi.weight": joined, **apart}):
        load_variables(variables, Arrays(arrays), table, table.rows(1))
        np.testing.assert_array_equal(np.concatenate([variable.value.T for variable in variables]), joined)
    other = {"Wi.weight": joined, "gate.weight": joined[:2], "up.weight": joined[:2]}
    with pytest.raises(
        ValueError, match=r"Block-1/up/kernel: up.weight differs from Wi.weight; the model has one variable for both"
    ):
        load_variables(variables, Arrays(other), table, table.rows(1))


def test_a_model_without_one_part_of_an_array_does_not_load_the_rest():
    table = table_of(PYTORCH, {fused(GATE, UP): "Wi"})
    gate = Variable("Block-1/gate/kernel", np.zeros((3, 2), "float32"))
    with pytest.raises(ValueError, match=r"gate/kernel: Wi.weight also holds Block-1/up/kernel, which the model does not have"):
        load_variables([gate], Arrays({"Wi.weight": np.zeros((4, 3), "float32")}), table, table.rows(1))


def test_modules_with_different_weights_are_not_joined():
    with pytest.raises(ValueError, match="fused modules must have the same kinds of weights"):
        fused(dense("One"), dense("Two", bias=False))
