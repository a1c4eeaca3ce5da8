"""Which devices train a model, and how: the one place that knows what Keras can on which backend."""

import contextlib
from collections.abc import Callable
from typing import Any, Self

import keras

from keras_bert_rebuild.models.devices_in_use import enter_devices, expect_use, leave_devices
from keras_bert_rebuild.training.hosts import host_count, host_index, join_hosts

KINDS = ("auto", "none", "mirrored", "data", "model")
# What each backend has, and what to say of the rest.
OF_BACKEND = {
    "jax": (("none", "data", "model"), "there is 'data' for the same, on several hosts and TPUs too"),
    "tensorflow": (("none", "mirrored"), "there is 'mirrored', for the GPUs of one host; for the rest set KERAS_BACKEND=jax"),
    "torch": (("none",), "one device trains a model there; for several set KERAS_BACKEND=jax, or tensorflow for those of a host"),
}


def distribute(
    kind: str = "auto",
    *,
    model_devices: int | None = None,
    hosts: int | None = None,
    host_index: int | None = None,
    coordinator: str | None = None,
) -> "Distribution":
    """Choose the devices of a training; the model is built, loaded, compiled and trained inside of what this answers with.

        with keras_bert_rebuild.distribute("data"):
            model = keras_bert_rebuild.from_pretrained(path, heads=["mlm", "nsp"])
            compile_model(model, max_predictions=20).fit(batches)

    A batch is that of all devices together, and so are its loss and its gradient: a training has the same numbers on one device and
    on several, but for rounding and, with "mirrored", for what dropout draws. Outside of the `with` nothing changes, other than
    after `keras.distribution.set_distribution`: a `BertModel` that trains on one device though several were chosen says so.

    Args:
        kind: "none", one device; "mirrored", TensorFlow's `MirroredStrategy` over the GPUs of one host (or its logical processors);
            "data", every device a part of the batch, and "model", every device a part of the batch and of the weights by
            `layout_table.LAYOUT`, both JAX's, on GPUs, TPUs and processors of any number of hosts; "auto", "data" or "mirrored"
            where there are several devices.
        model_devices: with "model", how many devices share the weights of one replica; None for those of one host. It should divide
            the heads.
        hosts, host_index, coordinator: as of `join_hosts`, where several hosts train together.

    Returns:
        A `Distribution`.

    Raises:
        ValueError: the backend or the devices cannot do it; the sentence says what can.
    """
    where = choose_devices(kind, model_devices, hosts, host_index, coordinator)
    if where.devices > 1:
        expect_use(kind, where.devices)
    return where


def choose_devices(kind="auto", model_devices=None, hosts=None, host_index=None, coordinator=None):
    """The same for code that enters what it is given: nobody is warned."""
    if kind not in KINDS:
        raise ValueError(f"distribute must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if model_devices is not None and kind != "model":
        raise ValueError(f"model_devices is for distribute='model'; got model_devices={model_devices} with {kind!r}.")
    backend = keras.config.backend()
    if kind != "auto" and kind not in OF_BACKEND[backend][0]:
        raise ValueError(f"distribute={kind!r} is not to be had on {backend}: {OF_BACKEND[backend][1]}.")
    join_hosts(hosts, host_index, coordinator)
    if backend == "tensorflow":
        return _of_tensorflow(kind)
    return _of_jax(kind, model_devices) if backend == "jax" else Distribution("none")


class Distribution(contextlib.AbstractContextManager):
    """The devices of a training, and which rows of a batch this host makes. As a context, it is where the model lives.

    Args:
        kind: "none", "mirrored", "data" or "model".
        devices: how many there are, of all hosts.
        replicas: parts that a batch is cut into.
        scope: a function that gives a context; None for none.
    """

    def __init__(self, kind: str, devices: int = 1, replicas: int = 1, scope: Callable[[], Any] | None = None) -> None:
        self.kind, self.devices, self.replicas = kind, devices, replicas
        self.hosts, self.host_index = host_count(), host_index()
        self.data_count = min(replicas, self.hosts)
        """Hosts with rows of their own; where a replica is larger than a host, several have the same rows."""
        self.data_index = self.host_index * self.data_count // self.hosts
        """Which of them this host makes."""
        self.writes = self.host_index == 0
        """Whether this is the host that writes what is written."""
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
        """Refuse a batch that the replicas cannot have equal parts of.

        Args:
            name: what to call it in the error.
            size: its examples, of all devices together.

        Raises:
            ValueError: the size is no multiple of the replicas.
        """
        if size % self.replicas:
            raise ValueError(f"{name} must be a multiple of {self.replicas}, the replicas of distribute={self.kind!r}; got {size}.")


def _of_tensorflow(kind):
    from keras_bert_rebuild.kernels.tensorflow_replicas import gpu_count, has_tpu_of_others, mirrored_strategy

    if kind != "none" and has_tpu_of_others():
        raise ValueError("this machine has a TPU, which this TensorFlow cannot drive: set KERAS_BACKEND=jax, or distribute='none'.")
    if kind == "none" or (kind == "auto" and gpu_count() < 2):
        return Distribution("none")
    strategy = mirrored_strategy()
    count = strategy.num_replicas_in_sync
    return Distribution("mirrored", count, count, strategy.scope)


def _of_jax(kind, model_devices):
    devices = keras.distribution.list_devices()
    count, hosts = len(devices), host_count()
    if kind == "none" and hosts > 1:
        raise ValueError(f"distribute='none' is for one host; for {hosts} hosts choose 'data' or 'model'.")
    if kind == "none" or (kind == "auto" and count == 1):
        return Distribution("none")
    if kind != "model":
        data = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
        return Distribution("data", count, count, data.scope)
    shared = count // hosts if model_devices is None else model_devices
    of_host = count // hosts
    if shared < 1 or count % shared or (of_host % shared and shared % of_host):
        raise ValueError(f"model_devices must divide {count} devices, {of_host} a host, into equal parts; got {shared}.")
    from keras_bert_rebuild.training.layout_table import BATCH, MODEL, ByTable

    mesh = keras.distribution.DeviceMesh((count // shared, shared), (BATCH, MODEL), devices)
    return Distribution("model", count, count // shared, ByTable(mesh).scope)
