"""Short pretraining runs that have everything a run has: held-out text, averaged weights, accumulated gradients, a curve."""

import shutil

import keras
import numpy as np
import yaml

from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

SETTINGS = {
    "batch_size": 4,
    "seq_len": 16,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-2,
    "ema": 0.9,
    "held_out": 0.2,
    "evaluation_steps": 2,
    "log_steps": 2,
    "workers": 0,
    # XLA takes longer to compile such a step than TensorFlow to run it.
    "jit_compile": keras.config.backend() == "jax",
}

# Those of a run of four steps, with its model of one block.
FOUR_STEPS = {
    **SETTINGS,
    "model": {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16},
    "steps": 4,
    "evaluate_steps": 2,
}


# A recipe whose training takes a second.
RECIPE = {
    "vocab_size": 220,
    "cased": False,
    "tokens_per_parameter": 1,
    "sizes": [
        {"model": FOUR_STEPS["model"]},
        {"model": {**FOUR_STEPS["model"], "hidden_size": 256, "intermediate_size": 512}},
    ],
    "training": {
        "learning_rate": 1e-2,
        "packing": True,
        "mask_rate": 0.3,
        "schedule": "trapezoidal",
        "decay_fraction": 0.5,
        "held_out": 0.2,
        "evaluation_steps": 1,
        "workers": 0,
        "jit_compile": SETTINGS["jit_compile"],
        "phases": [{"steps": 1, "batch_size": 2, "seq_len": 12}, {"steps": 3, "batch_size": 4, "seq_len": 16}],
    },
}


def whole_run(corpus, folder, settings):
    """An uninterrupted run: its folder, the rows of its curve and its model."""
    rows = []
    return folder, rows, pretrain(corpus, folder, settings, report=rows.append)


def check_resumption(whole, corpus, folder, settings, results=("model",), run=pretrain):
    """Resume a copy of a run of four steps from its second one, and compare weights and checkpoint bit by bit.

    Args:
        whole: as from `whole_run`.
        corpus, settings: those of the run.
        folder: the folder of the copy.
        results: the folders of its result.
        run: what runs it.
    """
    source, _, model = whole
    shutil.copytree(source, folder)
    for part in ("checkpoints/step-00000008", *results):
        shutil.rmtree(folder / part)
    resumed = run(corpus, folder, settings)
    for one, other in zip(resumed.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)), err_msg=one.path)
    digests = [CheckpointFolder(path / "checkpoints").newest().sha256 for path in (source, folder)]
    assert digests[0] == digests[1]


def write_recipe(path, **changes):
    """A YAML file of the recipe, with some fields of its training changed."""
    path.write_text(yaml.safe_dump({**RECIPE, "training": {**RECIPE["training"], **changes}}))
    return path
