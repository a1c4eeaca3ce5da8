"""The devices that train a model, how they train it, and along which axis each weight is sharded.

The only module that knows what Keras supports on which backend.
"""

import contextlib
import math
import re
from collections.abc import Callable
from typing import Any, Self

import keras

from keras_bert_rebuild.anatomy.part import MODEL
from keras_bert_rebuild.anatomy.parts import every_part
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.devices_in_use import enter_devices, expect_use, leave_devices
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.training.distributed.hosts import host_count, host_index, join_hosts, whole_array

KINDS = ("auto", "none", "mirrored", "data", "sharded", "model")
# The kinds under which several devices may share the weights of one replica.
WITH_MODEL_DEVICES = ("model", "sharded")
# The kinds that each backend supports, and a hint about the others.
OF_BACKEND = {
    "jax": (("none", "data", "sharded", "model"), "use 'data', which does the same, on several hosts and TPUs too"),
    "tensorflow": (("none", "mirrored"), "use 'mirrored' for the GPUs of one host; for anything else set KERAS_BACKEND=jax"),
    "torch": (("none",), "it trains on one device; for several devices set KERAS_BACKEND=jax, or tensorflow on one host"),
}


def distribute(
    kind: str = "auto",
    *,
    model_devices: int | None = None,
    hosts: int | str | None = None,
    host_index: int | None = None,
    coordinator: str | None = None,
) -> "Distribution":
    """Choose the devices of a training; build, load, compile and train the model inside the returned context.

        with keras_bert_rebuild.distribute("data"):
            model = keras_bert_rebuild.from_pretrained(path, heads=["mlm", "nsp"])
            compile_model(model, max_predictions=20).fit(batches)

    The batch size is global, and loss and gradient are those of the whole batch: a training gives the same numbers on one device
    and on several, except for rounding and, with "mirrored", for the random numbers of dropout. Unlike
    `keras.distribution.set_distribution`, it has no effect outside the `with`; a `BertModel` warns if it trains on one device
    although several were chosen.

    Args:
        kind: "none", one device; "mirrored", TensorFlow's `MirroredStrategy` over the GPUs of one host (or its logical CPUs);
            "data", a part of the batch on every device; "sharded", in addition a part of the weights, their gradients and the
            optimizer on every device (Rajbhandari et al., 2020, ZeRO), where weights that a step has gathered may stay whole until
            its backward pass; "model", a part of the batch and of the computation of each block by `LAYOUT`, these three on JAX, on
            GPUs, TPUs and CPUs of any number of hosts; "auto", "data" or "mirrored" if there are several devices.
        model_devices: with "model" and "sharded", the number of devices that compute one replica by `LAYOUT`; None for the devices
            of one host with "model" and 1 with "sharded". It should divide the number of attention heads.
        hosts, host_index, coordinator: see `join_hosts`, if several hosts train together.

    Returns:
        A `Distribution`.

    Raises:
        ValueError: the backend or the devices do not support this; the error names an alternative.
    """
    distribution = choose_devices(kind, model_devices, hosts, host_index, coordinator)
    if distribution.devices > 1:
        expect_use(kind, distribution.devices)
    return distribution


def choose_devices(kind="auto", model_devices=None, hosts=None, host_index=None, coordinator=None):
    """Same as `distribute` but without the warning, for callers that always enter the context."""
    if kind not in KINDS:
        raise ValueError(f"distribute must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if model_devices is not None and kind not in WITH_MODEL_DEVICES:
        kinds = " or ".join(map(repr, WITH_MODEL_DEVICES))
        raise ValueError(f"model_devices is for distribute={kinds}; got model_devices={model_devices} with {kind!r}.")
    backend = keras.config.backend()
    if kind != "auto" and kind not in OF_BACKEND[backend][0]:
        raise ValueError(f"distribute={kind!r} is not available on {backend}: {OF_BACKEND[backend][1]}.")
    join_hosts(hosts, host_index, coordinator)
    if backend == "tensorflow":
        return _tensorflow_distribution(kind)
    return _jax_distribution(kind, model_devices) if backend == "jax" else Distribution("none")


class Distribution(contextlib.AbstractContextManager):
    """The devices of a training, and the rows of a batch that this host provides. The model is created in this context.

    Args:
        kind: "none", "mirrored", "data", "sharded" or "model".
        devices: number of devices on all hosts together.
        replicas: number of parts that a batch is split into.
        scope: a function that returns a context manager; None for none.
    """

    def __init__(self, kind: str, devices: int = 1, replicas: int = 1, scope: Callable[[], Any] | None = None) -> None:
        self.kind, self.devices, self.replicas = kind, devices, replicas
        self.hosts, self.host_index = host_count(), host_index()
        self.data_count = min(replicas, self.hosts)
        """Number of hosts with different rows; if a replica spans several hosts, they have the same rows."""
        self.data_index = self.host_index * self.data_count // self.hosts
        """The index of the part of the rows that this host provides."""
        self.writes = self.host_index == 0
        """Whether this is the host that writes files."""
        self._scope = scope or contextlib.nullcontext
        self._entered: list[Any] = []

    def __enter__(self) -> Self:
        self._entered.append(self._scope())
        self._entered[-1].__enter__()
        enter_devices(self.replicas // self.data_count)
        return self

    def __exit__(self, *error: Any) -> Any:
        leave_devices()
        return self._entered.pop().__exit__(*error)

    def check_batch(self, name: str, size: int) -> None:
        """Raise a ValueError for a batch that cannot be divided equally among the replicas.

        Args:
            name: the name of the batch size in the error.
            size: the global batch size, in examples.

        Raises:
            ValueError: the size is not a multiple of the replicas.
        """
        if size % self.replicas:
            raise ValueError(f"{name} must be a multiple of {self.replicas}, the replicas of distribute={self.kind!r}; got {size}.")


def _tensorflow_distribution(kind):
    from keras_bert_rebuild.kernels.tensorflow_replicas import gpu_count, has_tpu_of_others, mirrored_strategy

    if kind != "none" and has_tpu_of_others():
        raise ValueError(
            "this machine has a TPU, which this TensorFlow does not support: set KERAS_BACKEND=jax or distribute='none'."
        )
    if kind == "none" or (kind == "auto" and gpu_count() < 2):
        return Distribution("none")
    strategy = mirrored_strategy()
    count = strategy.num_replicas_in_sync
    return Distribution("mirrored", count, count, strategy.scope)


def _jax_distribution(kind, model_devices):
    devices = keras.distribution.list_devices()
    count, hosts = len(devices), host_count()
    if kind == "none" and hosts > 1:
        raise ValueError(f"distribute must be 'data', 'sharded' or 'model' for {hosts} hosts; got 'none'.")
    if kind == "none" or (kind == "auto" and count == 1):
        return Distribution("none")
    if kind not in WITH_MODEL_DEVICES:
        data = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
        return Distribution("data", count, count, data.scope)
    per_host = count // hosts
    shared = (per_host if kind == "model" else 1) if model_devices is None else model_devices
    if shared < 1 or count % shared or (per_host % shared and shared % per_host):
        raise ValueError(f"model_devices must divide {count} devices, {per_host} per host, into equal parts; got {shared}.")

    mesh = keras.distribution.DeviceMesh((count // shared, shared), (BATCH, MODEL), devices)
    return Distribution(kind, count, count // shared, ByTable(mesh, with_batch=kind == "sharded").scope)


def whole_model(model, copied=False):
    """A model that one process can save; all hosts must call this at the same point.

    Args:
        model: a model from `build_model`.
        copied: copy the model even on a single host, if its variables have other paths, such as a generator's.

    Returns:
        The model itself on a single host; otherwise a copy on the first device of host 0, and None on other hosts.
    """
    if host_count() == 1 and not copied:
        return model
    arrays = {layer.name: [whole_array(weight.value) for weight in layer.weights] for layer in model.layers}
    if host_index() > 0:
        return None
    with on_one_device():
        copy = build_model(model.config, heads_of(model))
        for layer in copy.layers:
            for weight, array in zip(layer.weights, arrays[layer.name] if layer.weights else [], strict=True):
                weight.assign(array)
    return copy


@contextlib.contextmanager
def on_one_device():
    """Build and call models on the first device of this host, whatever the `Distribution` around it."""
    outer = keras.distribution.distribution()
    if outer is None:
        yield
        return
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(outer)


# Axes of the mesh: the batch is split over replicas, the weights over the devices of a replica.
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


# A weight without a row, or whose shape no split divides, is replicated on every device.
LAYOUT = _table()


def axes_of(path, shape, model_devices, owners=1):
    """The sharding of a weight: the mesh axis of every dimension, None for dimensions that are not split.

    Args:
        path: the path of the variable.
        shape: its shape.
        model_devices: number of devices that compute one replica, which share the weights of the table.
        owners: number of replicas that share all weights, along the first remaining dimension that they divide; 1 where each
            replica has its own.

    Example:

    >>> axes_of("Embedding-Token/embeddings", (30522, 768), 2), axes_of("Embedding-Token/embeddings", (30522, 768), 4)
    (('model', None), (None, 'model'))
    >>> axes_of("Embedding-Token/embeddings", (30522, 768), 1, owners=8), axes_of("MLM-Sim/bias", (30522,), 1, owners=8)
    ((None, 'batch'), (None,))
    """
    choices = next((choices for pattern, choices in LAYOUT if re.fullmatch(pattern, path)), ()) if model_devices > 1 else ()
    axes = next((axes for axes in choices if _divides(axes, shape, model_devices)), (None,) * len(shape))
    free = [i for i, axis in enumerate(axes) if axis is None and shape[i] % owners == 0]
    return axes if owners == 1 or not free else (*axes[: free[0]], BATCH, *axes[free[0] + 1 :])


def part_held(weights, owners):
    """The part of all weights that each of the replicas holds that share them.

    Args:
        weights: pairs of a path and a shape.
        owners: number of replicas.
    """
    sizes = [(math.prod(shape), BATCH in axes_of(path, shape, 1, owners)) for path, shape in weights]
    return sum(size / owners if is_split else size for size, is_split in sizes) / sum(size for size, _ in sizes)


class ByTable(keras.distribution.ModelParallel):
    """`keras.distribution.ModelParallel` with `axes_of` instead of a `LayoutMap`, which does not know whether a shape can be split.

    Args:
        mesh: a `keras.distribution.DeviceMesh` with the axes "batch" and "model".
        with_batch: whether replicas share the weights, too.
    """

    def __init__(self, mesh, with_batch=False):
        # Every process provides its own rows of a batch, which Keras must not shard.
        layouts = keras.distribution.LayoutMap(mesh)
        super().__init__(layout_map=layouts, batch_dim_name=BATCH, auto_shard_dataset=False)
        replicas, self.model_devices = mesh.shape
        self.owners = replicas if with_batch else 1

    def get_variable_layout(self, variable):
        """The layout of a new variable, as Keras asks for it; optimizers have that of the weight, and seeds are whole."""
        owners = self.owners if keras.backend.is_float_dtype(variable.dtype) else 1
        axes = axes_of(variable.path, variable.shape, self.model_devices, owners)
        return keras.distribution.TensorLayout(axes, self.device_mesh)


def _divides(axes, shape, model_devices):
    return all(axis is None or size % model_devices == 0 for axis, size in zip(axes, shape, strict=True))
