"""Compile the training step with JAX for devices that are not present. For a process whose backend is JAX."""

import json
import math
import os
import re
import sys

import jax
import jax.numpy as jnp
import keras
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.anatomy.part import MODEL
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.kernels import unwritten
from keras_bert_rebuild.kernels.jax_devices import compiling_for_cuda
from keras_bert_rebuild.layers.keras_layers import skipped_initialization
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import make_optimizer
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.compile_model import compile_model
from keras_bert_rebuild.training.distributed.distribution import BATCH, ByTable

# The compiler must not look for a chip, and other processes may use it at the same time.
ENVIRONMENT = {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}

# Without a GPU, forms of a product cannot be timed to choose the fastest one.
GPU_FLAGS = "--xla_gpu_autotune_level=0"


def make_compiled_model(config, settings):
    """The model that `pretrain` would train, compiled in the same way, with arbitrary weights.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
    """
    phase = settings.all_phases[0]
    with skipped_initialization(unwritten):
        model = settings.learned.build(config, settings, phase.seq_len)
    optimizer = make_optimizer(model, settings)
    compile_model(
        model,
        optimizer=optimizer,
        max_predictions=phase.max_predictions,
        loss_chunk=settings.loss_chunk,
        remat=settings.remat,
    )
    optimizer.build(model.trainable_variables)
    return model


def step_arguments(model, batch_size, seq_len, layout_of=lambda variable: None, split=None):
    """Shapes and dtypes of the arguments of `model.train_step` on JAX: the state and a batch.

    Args:
        model: a compiled model.
        batch_size: examples.
        seq_len: tokens of an example.
        layout_of: a function from a variable to its sharding.
        split: the sharding of the batch; None for one device.
    """
    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple(
        [jax.ShapeDtypeStruct(tuple(v.shape), jnp.dtype(v.dtype), sharding=layout_of(v)) for v in part] for part in variables
    )

    def ids(*shape):
        return jax.ShapeDtypeStruct((batch_size, *shape), jnp.int32, sharding=split)

    x = tuple(ids(seq_len) for _ in model.inputs)
    y = tuple(ids(seq_len, 1) if name == "MLM" else ids(1) for name in model.output_names)
    return state, (x, bare_if_one(y))


def compile_for_slice(config, settings, slice_):
    """Compile the training step with the TPU compiler, the batch split over the chips of a slice, the state by `distribute`.

    The dtype policy is that of the process.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        slice_: a slice such as "v5e:2x2".

    Returns:
        The compiler's report for one chip: bytes of arguments, temporaries, the program and the all-reduce, and operations.
    """
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    phase = settings.all_phases[0]
    # A host has four chips or eight, except in a slice of one.
    host = {"chips_per_host_bounds": (1, 1, 1)} if slice_.endswith(":1x1") else {}
    devices = topologies.get_topology_desc(platform="tpu", topology_name=slice_, **host).devices
    compiled = _compiled(config, settings, devices, phase.batch_size // settings.gradient_accumulation_steps, "tpu")
    return {**_report(compiled), "all_reduce": all_reduced_bytes(compiled.as_text()), "flops": compiled.cost_analysis()["flops"]}


def compile_for_gpu(config, settings, target, capability, examples):
    """Compile the training step of one NVIDIA GPU with XLA, with the kernels of this library that would run there.

    Their trials cannot run and count as passed.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        target: the description of the GPU, the text form of XLA's `GpuTargetConfigProto`.
        capability: its compute capability, such as 9.0.
        examples: how many examples it computes at once.

    Returns:
        The compiler's report, as for `compile_for_slice`; of the operations it knows nothing, since products are calls.
    """
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {GPU_FLAGS}".strip()
    devices = topologies.get_topology_desc("", "cuda", target_config=target, topology="1x1x1").devices
    with compiling_for_cuda(capability):
        return {**_report(_compiled(config, settings, devices, examples, "cuda")), "all_reduce": 0, "flops": 0}


def _compiled(config, settings, devices, examples, platform):
    """The compiled program of a step whose examples are split over devices."""
    model = make_compiled_model(config, settings)
    mesh = keras.distribution.DeviceMesh((len(devices), 1), (BATCH, MODEL), devices)
    table = ByTable(mesh, with_batch=settings.distribute == "sharded")
    split = NamedSharding(mesh.backend_mesh, PartitionSpec(BATCH))
    layout_of = lambda variable: table.get_variable_layout(variable).backend_layout  # noqa: E731
    arguments = step_arguments(model, examples, settings.all_phases[0].seq_len, layout_of, split)
    # As `fit` compiles it: the new state reuses the memory of the old one.
    layouts = [[argument.sharding for argument in part] for part in arguments[0][:-1]]
    whole = NamedSharding(mesh.backend_mesh, PartitionSpec())
    step = jax.jit(model.train_step, donate_argnums=0, out_shardings=(None, (*layouts, whole)))
    with table.scope():
        return step.trace(*arguments).lower(lowering_platforms=(platform,)).compile()


def _report(compiled):
    memory = compiled.memory_analysis()
    return {
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "program": memory.generated_code_size_in_bytes,
    }


def all_reduced_bytes(program):
    """Bytes of all arrays that a compiled program all-reduces.

    Args:
        program: the text of the program, with lines such as `%name = (f32[2,768]{1,0:T(2,128)}, bf16[768]{0}) all-reduce(...)`.
    """
    sizes = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2}
    arrays = [array for line in re.findall(r" = (.*?) all-reduce\(", program) for array in re.findall(r"(\w+)\[([\d,]*)\]", line)]
    return sum(sizes[dtype] * math.prod(int(n) for n in shape.split(",") if n) for dtype, shape in arrays)


def main():
    """Read a request from standard input and write the report to standard output, both as JSON."""
    question = json.load(sys.stdin)
    settings = PretrainSettings.from_dict(question["settings"])
    keras.config.set_dtype_policy(settings.dtype)
    config = BertConfig.from_dict(question["config"])
    if "slice" in question:
        answer = compile_for_slice(config, settings, question["slice"])
    else:
        answer = compile_for_gpu(config, settings, question["gpu"], question["capability"], question["examples"])
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
