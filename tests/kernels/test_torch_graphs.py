"""A model's graph on torch gives what its layers give, for batches of any size, and is not used where it would not."""

import gc
import weakref

import keras
import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import small_encoder
from helpers.tiny_families import heads_of, modules, name_of_module, tiny_config

from keras_bert_rebuild import add_lora, build_model
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.families import modernbert, xlnet
from keras_bert_rebuild.kernels import asynchronous
from keras_bert_rebuild.layers import Add
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW

pytestmark = pytest.mark.backend("torch")

# A row, tokens alone, one token, as while tracing, and others.
SHAPES = ((1, 9), (4, 1), (1, 1), (3, 8), (5, 16))


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are traced, each at the second call of a model."""
    from keras_bert_rebuild.kernels import torch_graphs

    traced = []

    class Noted(torch_graphs.Graph):
        calls = 0

        def __init__(self, *arguments):
            traced.append(None)  # counts those that fail
            super().__init__(*arguments)
            traced[-1] = self

        def __call__(self, arrays):
            self.calls += 1
            return super().__call__(arrays)

    monkeypatch.setattr(torch_graphs, "TRACED_AFTER", 1)
    monkeypatch.setattr(torch_graphs, "Graph", Noted)
    return traced


def rows(model, shape, seed=0):
    """Inputs of a model, with padding at the end of the last row."""
    rng = np.random.default_rng(seed)
    arrays = {"Input-Token": rng.integers(5, 20, shape).astype("int32"), "Input-Segment": np.zeros(shape, "int32")}
    arrays["Input-Token"][-1, max(1, shape[1] - 2) :] = 0
    arrays["Input-Mask"] = (arrays["Input-Token"] > 0).astype("int32")
    return bare_if_one([arrays.get(tensor.name, np.ones(shape, "int32")) for tensor in model.inputs])


def answers(model, inputs):
    return keras.tree.flatten(asynchronous.fetched(asynchronous.dispatched(model, inputs)))


def of_layers(model, inputs):
    return [keras.ops.convert_to_numpy(output) for output in keras.tree.flatten(model.predict_on_batch(inputs))]


@pytest.mark.parametrize("module", modules(), ids=name_of_module)
def test_every_family_has_a_graph_for_batches_of_any_size(module, graphs):
    heads = [head for head in heads_of(module) if head in ("mlm", "nsp")]
    model = spread(build_model(tiny_config(module), heads), np.random.default_rng(3))
    for shape in (SHAPES[0], *SHAPES):
        inputs = rows(model, shape)
        for found, expected in zip(answers(model, inputs), of_layers(model, inputs), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert [graph.calls for graph in graphs] == [len(SHAPES) + 1]  # one of them to compare it with the layers


def test_a_model_is_traced_once_after_its_first_calls(graphs):
    model = small_encoder()
    inputs = rows(model, (2, 7))
    answers(model, inputs)
    assert not graphs
    for _ in range(3):
        answers(model, inputs)
    assert [graph.calls for graph in graphs] == [4]


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-6), ("mixed_bfloat16", 0)])
def test_a_graph_follows_the_weights(graphs, policy, tolerance):
    keras.config.set_dtype_policy(policy)
    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(2):
        before = answers(model, inputs)[0]
    for name in ("query/kernel", "intermediate/bias"):
        weight = next(variable for variable in model.weights if variable.path.endswith(name))
        weight.assign(1 - weight)
        after = answers(model, inputs)[0]
        assert np.abs(after - before).max() > 1e-3
        np.testing.assert_allclose(after.astype("float32"), of_layers(model, inputs)[0].astype("float32"), rtol=0, atol=tolerance)
        before = after
    assert [graph.calls for graph in graphs] == [4]


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("fused", [False, True], ids=["our AdamW", "torch's fused AdamW"])
def test_a_graph_in_half_precision_follows_training(graphs, fused):
    import torch

    keras.config.set_dtype_policy("mixed_bfloat16")
    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(3):
        before = answers(model, inputs)[0]
    if fused:
        optimizer = torch.optim.AdamW(model.parameters(), 0.1, fused=True)
        model(inputs, training=True).float().square().sum().backward()
        optimizer.step()
    else:
        model.compile(AdamW(0.1, weight_decay=0.0), loss="mse")
        model.train_on_batch(inputs, np.zeros((2, 7, 16), "float32"))
    after = answers(model, inputs)[0]
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_array_equal(after, of_layers(model, inputs)[0])
    assert [graph.calls for graph in graphs] == [4]


@pytest.mark.slow(torch=True)
def test_a_graph_in_half_precision_converts_weights_once(graphs):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(3):
        answers(model, inputs)
    (graph,) = graphs
    nodes = graph._function.graph.nodes
    given = [node for node in nodes if node.op == "placeholder"]
    converted = [node for node in nodes if str(node.target).startswith("aten.to") and node.args[0] in given]
    assert len(graph._conversions) > 10
    assert len(converted) <= 1  # the mask
    weights = graph._weights()
    assert all(one is other for one, other in zip(weights, graph._weights(), strict=True))


@pytest.mark.slow(torch=True)
def test_variables_that_are_added_have_a_graph_of_their_own(graphs):
    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(2):
        before = answers(model, inputs)[0]
    add_lora(model, rank=2)
    spread(model, np.random.default_rng(1))
    for _ in range(3):
        after = answers(model, inputs)[0]
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after, of_layers(model, inputs)[0], rtol=0, atol=1e-6)
    assert [graph.calls for graph in graphs] == [2, 3]


@pytest.mark.slow(torch=True)
def test_a_model_without_a_graph_is_tried_once_and_answered_by_its_layers(graphs):
    model = build_model(tiny_config(xlnet), ("classification",))  # takes the last token of each row
    inputs = rows(model, (2, 7))
    for _ in range(4):
        np.testing.assert_allclose(answers(model, inputs)[0], of_layers(model, inputs)[0], rtol=0, atol=1e-6)
    assert graphs == [None]


def test_a_branch_on_a_value_is_not_traced(graphs):
    class Branching(keras.layers.Layer):
        def call(self, inputs):
            return -inputs if keras.ops.sum(inputs) > 0 else inputs

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Branching()(inputs))
    for sign in (1, 1, 1, -1):
        np.testing.assert_array_equal(answers(model, np.full((2, 3), sign, "float32"))[0], np.full((2, 3), -1, "float32"))
    assert graphs == [None]


def test_a_graph_that_answers_otherwise_is_not_used(graphs, monkeypatch):
    from keras_bert_rebuild.kernels import torch_graphs

    monkeypatch.setattr(torch_graphs.Graph, "__call__", lambda self, arrays: keras.ops.zeros((2, 7, 16)))
    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(4):
        np.testing.assert_allclose(answers(model, inputs)[0], of_layers(model, inputs)[0], rtol=0, atol=1e-6)
    assert len(graphs) == 1


def test_texts_too_long_for_a_graph_are_answered_by_the_layers(graphs):
    model = build_model(tiny_config(modernbert), ())  # beyond 16 tokens attention is computed in bands
    for length in (9, 9, 17, 40, 9):
        inputs = rows(model, (2, length))
        np.testing.assert_allclose(answers(model, inputs)[0], of_layers(model, inputs)[0], rtol=0, atol=1e-5)
    assert [graph.calls for graph in graphs] == [3]


def test_a_static_length_is_kept(graphs):
    model = build_model(tiny_config(modernbert), (), seq_len=12)
    inputs = rows(model, (2, 12))
    for _ in range(3):
        np.testing.assert_allclose(answers(model, inputs)[0], of_layers(model, inputs)[0], rtol=0, atol=1e-5)
    assert [graph.calls for graph in graphs] == [3]
    assert [graphs[0].fits([keras.ops.zeros((2, length), "int32")]) for length in (11, 12)] == [False, True]


def test_rules_and_autocast_call_the_layers(graphs):
    import torch

    model = small_encoder(())
    inputs = rows(model, (2, 7))
    for _ in range(2):
        answers(model, inputs)
    with executing((Add.call, lambda replaced, layer, inputs: replaced(layer, inputs))):
        answers(model, inputs)
    device = keras.ops.zeros(()).device.type
    with torch.autocast(device, dtype=torch.bfloat16):
        answers(model, inputs)
    model.run_eagerly = True
    answers(model, inputs)
    assert [graph.calls for graph in graphs] == [2]
    other = small_encoder(())
    with torch.autocast(device, dtype=torch.bfloat16):
        for _ in range(3):
            answers(other, inputs)
    assert len(graphs) == 1


def test_shapes_that_the_layers_refuse_are_refused_as_before(graphs):
    model = small_encoder(())
    for _ in range(2):
        answers(model, rows(model, (2, 7)))
    with pytest.raises(ValueError, match="at most 40 positions"):
        asynchronous.dispatched(model, rows(model, (2, 41)))
    ids, segments = rows(model, (2, 7))
    for unequal in (segments[:, :5], segments[0]):
        with pytest.raises((ValueError, RuntimeError), match="shape"):
            asynchronous.dispatched(model, [ids, unequal])


def test_a_model_with_a_graph_is_freed(graphs):
    model = small_encoder(())
    for _ in range(3):
        answers(model, rows(model, (2, 7)))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
    assert len(graphs) == 1


def test_a_graph_has_no_conversions_and_no_assertions(graphs):
    model = small_encoder(())
    for _ in range(2):
        answers(model, rows(model, (2, 7)))
    names = [str(node.target) for node in graphs[0]._function.graph.nodes if node.op == "call_function"]
    assert "aten.layer_norm.default" in names
    assert not [name for name in names if "assert" in name or "lift" in name]
    assert sum(name.startswith("aten.to") for name in names) <= 2  # of the mask


def test_a_graph_computes_nothing_without_a_use_and_copies_no_number(graphs):
    import torch

    class Doubled(keras.layers.Layer):
        def call(self, inputs):
            inputs.to("meta")  # another device, as inputs that are checked on the host are moved there from a GPU
            return inputs * torch.tensor(2.0).to(inputs.device, inputs.dtype)

    inputs = keras.Input((3,), dtype="float16")
    model = keras.Model(inputs, Doubled(dtype="float16")(inputs))
    for _ in range(3):
        np.testing.assert_array_equal(answers(model, np.ones((2, 3), "float16"))[0], np.full((2, 3), 2, "float16"))
    (graph,) = graphs
    assert [str(node.target) for node in graph._function.graph.nodes if node.op == "call_function"] == ["aten.mul.Tensor"]
    (number,) = graph._function.buffers()
    assert number.dtype == torch.float16
