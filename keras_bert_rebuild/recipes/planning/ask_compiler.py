"""The report of a compiler on the training step of a device that is absent, from a process of its own."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from collections import namedtuple

CHILD = "keras_bert_rebuild.recipes.planning.device_compiler"

# The TPU chips that can be compiled for. A v4 is not among them: the compiler counts one of its chips as two devices.
CHIPS = ("v5e", "v5p", "v6e")

# What XLA must know of a GPU that is absent, beside its memory: compute capability, processors, bytes of shared memory of a
# processor and of those that a block may have, bytes of the second cache, GHz.
Processors = namedtuple("Processors", ["capability", "count", "shared", "shared_of_block", "cache", "clock"])

# From tables of NVIDIA's tuning guides for Ampere and Hopper (https://docs.nvidia.com/cuda/hopper-tuning-guide/).
A100 = Processors(8.0, 108, 164 << 10, 163 << 10, 40 << 20, 1.41)
H100 = Processors(9.0, 132, 228 << 10, 227 << 10, 50 << 20, 1.98)
CARDS = {"a100-40": A100, "a100-80": A100, "h100": H100, "h200": H100._replace(cache=60 << 20)}

# The description of a GPU in the text form of XLA's message `GpuTargetConfigProto`.
TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: {count} fpus_per_core: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  shared_memory_per_block: 49152 shared_memory_per_core: {shared} shared_memory_per_block_optin: {shared_of_block}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 l2_cache_size: {cache} clock_rate_ghz: {clock}
  memory_bandwidth: {bandwidth:.0f} device_memory_size: {memory:.0f} cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA" device_description_str: "{title}"
dnn_version_info {{ major: 9 minor: 7 }} runtime_version {{ major: 12 minor: 8 patch: 0 }}
"""


def can_compile(device):
    """Whether there is a compiler for a `Device`."""
    return device.name in (*CHIPS, *CARDS)


def ask_compiler(config, settings, topology, examples):
    """Compile the training step for devices that are absent, and return the compiler's report.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        topology: a slice of TPUs, whose chips share the batch; or GPUs, of which one is compiled for.
        examples: how many examples a device computes at once.

    Returns:
        `{"arguments": bytes, "temporaries": bytes, "program": bytes, "all_reduce": bytes, "flops": operations}` of one device, 0
        where the compiler says nothing, or `{"refused": message of the compiler}` if the step does not fit.

    Raises:
        ValueError: JAX or the compiler is not installed, or it failed.
    """
    on_gpu = topology.kind == "gpu"
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin") if on_gpu else ("libtpu",)
    missing = [names[0] for names in (("jax",), plugins) if not any(map(importlib.util.find_spec, names))]
    if missing:
        package = "jax[cuda12]" if on_gpu else "jax[tpu]"
        raise ValueError(f"compiling for {topology.words} needs {' and '.join(missing)}: pip install '{package}'.")
    question = {"config": config.to_dict(), "settings": dataclasses.asdict(settings), "examples": examples}
    question |= _gpu(topology.device) if on_gpu else {"slice": f"{topology.device.name}:{'x'.join(map(str, topology.shape))}"}
    # JAX runs on the processor of this machine until the compiler is called.
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    answer = subprocess.run(
        [sys.executable, "-m", CHILD], input=json.dumps(question), capture_output=True, text=True, env=environment, check=False
    )
    if answer.returncode == 0:
        return json.loads(answer.stdout.splitlines()[-1])
    messages = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    reason = next((line for line in reversed(messages) if "RESOURCE_EXHAUSTED" in line), None)
    if reason is not None:
        return {"refused": reason.partition("RESOURCE_EXHAUSTED: ")[2]}
    said = messages[-1] if messages else "it gave no reason"
    if "cuDNN not found" in answer.stderr:  # inside a message of several lines
        said = "cuDNN is not installed, which pip install 'jax[cuda12]' brings"
    raise ValueError(f"the compiler could not compile for {topology.words}: {said}")


def _gpu(device):
    card = CARDS[device.name]
    major, minor = divmod(round(10 * card.capability), 10)
    facts = {**card._asdict(), "major": major, "minor": minor}
    target = TARGET.format(**facts, bandwidth=device.bandwidth, memory=device.memory, title=device.title)
    return {"gpu": target, "capability": card.capability}
