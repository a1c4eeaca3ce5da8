"""torch: the predictions of a model as one graph of torch's operations.

Keras's layers take 0.2 ms of Python each in every call, 16 ms for the 93 of a MiniLM, during which a GPU waits, and a functional
model holds every intermediate tensor until its end. A graph traced by `torch.export` calls the same kernels, for batches of any
size, without the layers, and frees each tensor after its last use.
"""

import math
import threading
import weakref

import keras
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from keras_bert_rebuild.layers.seam import execution

# Calls of a model before it is traced, which takes 2 to 3 seconds with MiniLM, as long as 100 to 200 calls of its layers.
TRACED_AFTER = 32

# The sizes of dimensions while tracing. torch takes sizes of 0 and 1 for constants, and short texts have forms of their own.
BATCH, LENGTH = 3, 8

# Largest difference between a graph and the layers on a batch, relative to the largest number. Their kernels are the same.
TOLERANCE = 1e-2

# What `torch.export` and the code that it traces raise for what has no graph, such as a branch on a value or a use of NumPy.
UNTRACEABLE = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError)

# What happens to a copied number before its first use.
ON_THE_WAY = (torch.ops.aten.to, torch.ops.aten.detach_)

# The steps of all of torch's optimizers.
_STEPS = [0]

_PREDICTIONS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_TRACING = threading.Lock()  # `torch.export` changes global state


def _count_step(*arguments):
    _STEPS[0] += 1


register_optimizer_step_post_hook(_count_step)


def graph_for(model, inputs, variables=None):
    """The graph of a model's predictions for a batch; None if its layers must be called.

    They must be in the first 32 calls, under interventions and `torch.autocast`, for sizes that the graph is not valid for, and if
    the model cannot be traced. The graph does not call torch's hooks of layers; `model.run_eagerly = True` avoids it.

    Args:
        model: a Keras model.
        inputs: arrays or tensors.
        variables: `model.variables`, if the caller has them.
    """
    arrays = keras.tree.flatten(inputs)
    if execution().rules or isinstance(inputs, dict) or any(array is None for array in arrays):
        return None
    variables = model.variables if variables is None else variables
    device = (variables[0].value if variables else keras.ops.zeros(())).device
    if torch.is_autocast_enabled(device.type):
        return None
    graph = _PREDICTIONS.setdefault(model, _Prediction()).graph(model, arrays, [device, *map(id, variables)])
    return graph if graph is not None and graph.fits(arrays) else None


class _Prediction:
    """The graph of a model, traced after some calls, and again if variables were added, removed or moved to another device."""

    def __init__(self):
        self._state, self._calls, self._graph = None, 0, None

    def graph(self, model, arrays, state):
        """The graph, valid for one state: a device and the ids of variables; None in the first calls, and if there is none."""
        if state != self._state:
            self._state, self._calls, self._graph = state, 0, None
        self._calls += 1
        if self._calls == TRACED_AFTER + 1:
            with _TRACING, torch.no_grad():
                self._graph = _tried(model, arrays, state[0])
        return self._graph


def _tried(model, arrays, device):
    """The graph of a model, compared with the layers on a batch; None if it cannot be traced or differs."""
    if not getattr(model, "inputs", None):
        return None
    try:
        graph = Graph(model, device)
    except UNTRACEABLE:  # the layers themselves are right
        return None
    if not graph.fits(arrays):
        return graph
    expected = keras.tree.flatten(model(keras.tree.pack_sequence_as(model.input, arrays), training=False))
    return graph if all(map(_are_close, keras.tree.flatten(graph(arrays)), expected)) else None


class Graph:
    """A functional model as a function of its inputs, arrays or tensors in the model's order, for all sizes that `fits` says.

    Args:
        model: the model.
        device: the device of its inputs.

    Raises:
        One of `UNTRACEABLE`: the model cannot be traced.
    """

    def __init__(self, model, device):
        self.device, self._dtypes = device, [getattr(torch, tensor.dtype) for tensor in model.inputs]
        examples, free = [], []
        for tensor, dtype in zip(model.inputs, self._dtypes, strict=True):
            shape = [size or (LENGTH if axis else BATCH) for axis, size in enumerate(tensor.shape)]
            examples.append(torch.ones(shape, dtype=dtype, device=device))
            free.append({axis: torch.export.Dim.DYNAMIC for axis, size in enumerate(tensor.shape) if size is None})
        program = torch.export.export(_Called(model), tuple(examples), dynamic_shapes={"inputs": tuple(free)}, strict=False)
        if program.graph_signature.buffers_to_mutate:
            raise ValueError("a graph must not change variables; this model does in a prediction.")
        tensors = {**program.constants, **program.state_dict}
        self._arguments = [tensors[each.target] for each in program.graph_signature.input_specs if each.target is not None]
        inputs = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"][len(self._arguments) :]
        self._sizes = [[size if isinstance(size, int) else str(size) for size in shape] for shape in inputs]
        uppers = {str(symbol): allowed.upper for symbol, allowed in program.range_constraints.items()}
        self._most = {symbol: int(upper) if upper.is_Integer else math.inf for symbol, upper in uppers.items()}
        graph = simplified(program.graph_module, self._arguments)
        counted = (variable.value for variable in model.variables if not variable.value.is_inference())
        owners = {value.data_ptr(): value for value in counted}
        weights = [owners.get(tensor.data_ptr()) for tensor in self._arguments]
        self._conversions, self._converted = with_converted_weights(graph, weights), (None, ())
        self._function = torch.fx.GraphModule(program.graph_module, graph)
        single = isinstance(model.output, (list, tuple)) and len(model.output) == 1
        self._outputs = keras.tree.map_structure(lambda _: None, model.output[0] if single else model.output)

    def fits(self, arrays):
        """Whether the graph is valid for inputs of these shapes."""
        shapes = [tuple(array.shape) for array in arrays]
        if list(map(len, shapes)) != list(map(len, self._sizes)):
            return False
        size_of = {}
        for shape, sizes in zip(shapes, self._sizes, strict=True):
            for size, wanted in zip(shape, sizes, strict=True):
                if isinstance(wanted, int):
                    valid = size == wanted
                else:
                    valid = 0 < size <= self._most.get(wanted, 0) and size == size_of.setdefault(wanted, size)
                if not valid:
                    return False
        return True

    @torch.no_grad()
    def __call__(self, arrays):
        """The outputs, in the structure of the model's."""
        # Not by Keras, which would move them to the device of its scope.
        tensors = (torch.as_tensor(each, dtype=dtype, device=self.device) for each, dtype in zip(arrays, self._dtypes, strict=True))
        return keras.tree.pack_sequence_as(self._outputs, list(self._function(*self._arguments, *self._weights(), *tensors)))

    def _weights(self):
        """The weights in the dtype that they are multiplied in, converted again only if one of them may have changed."""
        state, weights = self._converted
        # torch counts what changes a tensor in place, but not the steps of its fused optimizers.
        now = [_STEPS[0], *(weight._version for weight, _ in self._conversions)]
        if now != state:
            weights = [weight.to(dtype) for weight, dtype in self._conversions]
            self._converted = now, weights
        return weights


class _Called(torch.nn.Module):
    """A Keras model as a module of torch whose outputs are a flat tuple."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        called = keras.tree.pack_sequence_as(self.model.input, list(inputs))
        return tuple(keras.tree.flatten(self.model(called, training=False)))


def simplified(module, arguments):
    """The graph of a module, changed in place, without what takes time in every call and changes no output.

    That is assertions, conversions to the dtype and device that a tensor has, results that nothing uses, such as copies of inputs
    on the host, and copies of numbers in the code to the device. A copy between host and GPU would wait for all batches before it.

    Args:
        module: an exported `GraphModule`.
        arguments: the tensors for its first placeholders.
    """
    graph, numbers = module.graph, {}
    argument_of = dict(zip(graph.nodes, arguments, strict=False))
    for node in list(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        if packet is torch.ops.aten._assert_tensor_metadata:
            graph.erase_node(node)
        elif packet is torch.ops.aten.to and _is_same(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif packet is torch.ops.aten.lift_fresh_copy:
            numbers[node] = argument_of[node.args[0]]
        elif packet in ON_THE_WAY and node.all_input_nodes[0] in numbers and len(node.all_input_nodes) == 1:
            numbers[node] = node.target(numbers[node.args[0]], *node.args[1:], **node.kwargs)
    for i, (node, number) in reversed(list(enumerate(numbers.items()))):
        module.register_buffer(f"number_{i}", number)
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.get_attr(f"number_{i}"))
        graph.erase_node(node)
    graph.eliminate_dead_code()
    for node in graph.nodes:
        node.meta = {}  # fake tensors and lines of code
    return graph


def with_converted_weights(graph, weights):
    """Let a graph, changed in place, take weights in the dtypes that it converts them to, after its other arguments.

    Args:
        graph: the graph.
        weights: the weights that its first placeholders stand for, None where it is no weight.

    Returns:
        Weights and their dtypes.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    # Integers are of quantised layers, whose point is that no larger copy exists.
    floats = {node: of for node, of in zip(placeholders, weights, strict=False) if of is not None and of.is_floating_point()}
    taken = {}
    for node in list(graph.nodes):
        if node.target == torch.ops.aten.to.dtype and len(node.args) == 2 and node.args[0] in floats:
            if node.args not in taken:
                with graph.inserting_before(placeholders[len(weights)]):
                    taken[node.args] = graph.placeholder(f"converted_{len(taken)}")
            node.replace_all_uses_with(taken[node.args])
            graph.erase_node(node)
    return [(floats[node], dtype) for node, dtype in taken]


def _is_same(node):
    before, after = node.args[0].meta["val"], node.meta["val"]
    copies = node.kwargs.get("copy") or any(each is True for each in node.args)
    return before.dtype == after.dtype and before.device == after.device and not copies


def _are_close(got, expected):
    if not got.is_floating_point():
        return torch.equal(got, expected)
    scale = expected.float().nan_to_num(0, 0, 0).abs().max().item()
    return torch.allclose(got.float(), expected.float(), rtol=0, atol=TOLERANCE * scale, equal_nan=True)
