"""A recipe whose training takes a second, and a text for it."""

import yaml

from helpers import small_runs

RECIPE = {
    "vocab_size": 220,
    "cased": False,
    "tokens_per_parameter": 1,
    "sizes": [
        {"model": small_runs.FOUR_STEPS["model"]},
        {"model": {**small_runs.FOUR_STEPS["model"], "hidden_size": 256, "intermediate_size": 512}},
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
        "jit_compile": small_runs.SETTINGS["jit_compile"],
        "phases": [{"steps": 1, "batch_size": 2, "seq_len": 12}, {"steps": 3, "batch_size": 4, "seq_len": 16}],
    },
}

DOCUMENTS, PASSAGES = 20, 6


def write_recipe(path, **changes):
    """A YAML file of the recipe, with some fields of its training changed."""
    path.write_text(yaml.safe_dump({**RECIPE, "training": {**RECIPE["training"], **changes}}))
    return path


def write_text(path, documents=DOCUMENTS):
    """A text whose documents each have a word of their own, twice in every passage."""
    names = ["".join(chr(97 + int(digit)) for digit in f"{i:03d}") for i in range(documents)]
    said = [[f"the {name} sat on mat {j} and the {name} ran {i * j}" for j in range(PASSAGES)] for i, name in enumerate(names)]
    path.write_text("\n\n".join("\n".join(passages) for passages in said) + "\n")
    return path
