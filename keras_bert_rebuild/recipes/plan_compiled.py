"""The TPU compiler, run in a separate process: this one may have another backend."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys

CHILD = "keras_bert_rebuild.recipes.tpu_compiler"
NEEDS = ("jax", "libtpu")


def ask_tpu_compiler(config, settings, slice_):
    """What the TPU compiler reports about the training step, without a TPU.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        slice_: a slice such as "v5e:2x2".

    Returns:
        `{"arguments": bytes, "temporaries": bytes, "program": bytes, "all_reduce": bytes, "flops": operations}` of one chip, or
        `{"refused": message of the compiler}` if the step does not fit.

    Raises:
        ValueError: JAX or the compiler is not installed, or the slice is unknown.
    """
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"compiling needs {' and '.join(missing)}: pip install 'jax[tpu]'.")
    question = {"config": config.to_dict(), "settings": dataclasses.asdict(settings), "slice": slice_}
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
    raise ValueError(f"the TPU compiler could not compile for {slice_}: {messages[-1] if messages else 'it gave no reason'}")
