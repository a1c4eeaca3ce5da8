"""Which kernels run, what they are compared with, and what is compiled: the plain form, gradients, another device."""

import contextlib
import dataclasses
import functools
import threading
from types import SimpleNamespace

import keras
from keras import ops

from keras_bert_rebuild.kernels.kernel import KERNELS
from keras_bert_rebuild.layers.seam import kernel_of


@contextlib.contextmanager
def _restored():
    """The kernels of every seam that has some, as they were before the block."""
    seams = [replaced for of_kernel in KERNELS.values() for replaced in of_kernel]
    before = [list(replaced.kernels) for replaced in seams]
    try:
        yield seams
    finally:
        for replaced, kernels in zip(seams, before, strict=True):
            replaced.kernels[:] = kernels


def plain(function, *arguments, **options):
    """The answer of a function without any kernel."""
    with _restored() as seams:
        for replaced in seams:
            replaced.kernels.clear()
        return function(*arguments, **options)


@contextlib.contextmanager
def noted_kernels():
    """The names of the kernels that run in the block, `module.function`, a set that grows."""
    names = set()

    def noted(function, *arguments, **options):
        names.add(name_of(function))
        return function(*arguments, **options)

    with _restored() as seams:
        for replaced in {id(replaced): replaced for replaced in seams}.values():
            replaced.kernels[:] = [
                dataclasses.replace(kernel, function=functools.partial(noted, kernel.function)) for kernel in replaced.kernels
            ]
        yield names


def name_of(function):
    """The name of a kernel in `KERNELS`."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def chosen_kernel(replaced, *arguments, **options):
    """The name of the kernel that would compute a seam; None for the plain form."""
    kernel = kernel_of(replaced, *arguments, **options)
    return None if kernel is None else name_of(kernel.function)


# At float32's rounding of values around one, and at bfloat16's last digit.
TOLERANCES = {"float32": 2e-6, "bfloat16": 2e-2}


def value_and_gradients(function, upstream, *arrays, dtype="float32"):
    """The value of a function of tensors, and the gradients of its sum weighted with `upstream`, on the running backend."""
    backend = keras.config.backend()
    tensors = [ops.convert_to_tensor(array, dtype=dtype) for array in arrays]
    upstream = ops.convert_to_tensor(upstream, dtype="float32")

    def weighted(*tensors):
        return ops.sum(ops.cast(function(*tensors), "float32") * upstream)

    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = weighted(*tensors)
        gradients = tape.gradient(loss, tensors)
    elif backend == "jax":
        import jax

        gradients = jax.grad(weighted, argnums=tuple(range(len(tensors))))(*tensors)
    else:
        tensors = [tensor.detach().requires_grad_(True) for tensor in tensors]
        weighted(*tensors).backward()
        gradients = [tensor.grad for tensor in tensors]
    return [ops.convert_to_numpy(ops.cast(x, "float32")) for x in (function(*tensors), *gradients)]


def rounded(array, dtype):
    """An array rounded to a dtype."""
    return ops.convert_to_numpy(ops.cast(ops.convert_to_tensor(array, dtype=dtype), "float32"))


PROCESSOR = SimpleNamespace(platform="cpu", client=SimpleNamespace(platform_version="cpu"))


def gpu(compute_capability="9.0"):
    """A GPU of NVIDIA's."""
    client = SimpleNamespace(platform_version="cuda 12090")
    return SimpleNamespace(platform="gpu", compute_capability=compute_capability, client=client)


def pretend(monkeypatch, device):
    """From now on the process has one device, this one."""
    monkeypatch.setattr("jax.local_devices", lambda *arguments, **options: [device])


@contextlib.contextmanager
def compiled_programs():
    """A list of the function and the thread of each program that JAX compiles within it, names without the threads' numbers."""
    import jax

    programs = []

    def noted(event, seconds, fun_name="", **facts):
        if event.endswith("/backend_compile_duration"):
            programs.append((fun_name, threading.current_thread().name.split("_")[0]))

    jax.monitoring.register_event_duration_secs_listener(noted)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(noted)
