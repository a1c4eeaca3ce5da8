"""The TPU compiler, asked in a process of its own: this one may run on another backend."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys

CHILD = "keras_bert_rebuild.recipes.tpu_compiler"
NEEDS = ("jax", "libtpu")


def ask_tpu_compiler(config, settings, slice_):
    """What the TPU compiler says of the training step, without a TPU.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        slice_: such as "v5e:2x2".

    Returns:
        `{"arguments": bytes, "temporaries": bytes, "program": bytes, "all_reduce": bytes, "flops": operations}` of one chip, or
        `{"refused": what the compiler said}` where the step does not fit.

    Raises:
        ValueError: JAX or the compiler is not installed, or it does not know such a slice.
    """
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"compiling needs {' and '.join(missing)}: pip install 'jax[tpu]'.")
    question = {"config": config.to_dict(), "settings": dataclasses.asdict(settings), "slice": slice_}
    # The processor of this machine stands in for a device until the compiler is asked.
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    answer = subprocess.run(
        [sys.executable, "-m", CHILD], input=json.dumps(question), capture_output=True, text=True, env=environment, check=False
    )
    if answer.returncode == 0:
        return json.loads(answer.stdout.splitlines()[-1])
    said = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    reason = next((line for line in reversed(said) if "RESOURCE_EXHAUSTED" in line), None)
    if reason is not None:
        return {"refused": reason.partition("RESOURCE_EXHAUSTED: ")[2]}
    raise ValueError(f"the TPU compiler could not compile for {slice_}: {said[-1] if said else 'it said nothing'}")
