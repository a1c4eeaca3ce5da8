"""The memory of short pretrainings beside what `keras-bert plan --cpu` and `--measure` say of them, setting by setting.

Command: python benchmarks/plan_memory.py --output TABLE
Time: half an hour on two cores

Each setting is a pretraining of a few steps in a process of its own. Memory is the highest resident set of the run, beyond what the
process held after another run with the same settings and a model of a few thousand numbers: the weights, the optimizer and
what a step takes, without the programs of Python and of the backend. `--measure` runs steps of a quarter and of half of these
tokens in processes of their own, and of all of them, since there is time and memory for it. Linux only.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

SETTINGS = {
    "adamw": {},
    "lamb": {"optimizer": "lamb"},
    "stable_adamw": {"optimizer": "stable_adamw"},
    "muon": {"optimizer": "muon"},
    "averages": {"ema": 0.99},
    "accumulation of 2": {"gradient_accumulation_steps": 2},
    "batches that grow": {"batch_warmup": (16, 32), "batch_warmup_steps": 2},
    "packing": {"packing": True},
    "remat": {"remat": True},
    "loss chunk": {"loss_chunk": 128},
    "bfloat16": {"dtype": "mixed_bfloat16"},
    "short before long": {
        "phases": ({"steps": 1, "batch_size": 64, "seq_len": 64}, {"steps": 2, "batch_size": 64, "seq_len": 128})
    },
}
MODEL = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
TINY = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
COMMON = {
    "steps": 3,
    "batch_size": 64,
    "seq_len": 128,
    "held_out": 0,
    "workers": 0,
    "tensorboard": False,
    "save_in_background": False,
}
VOCABULARY = 8000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=tuple(SETTINGS))
    parser.add_argument("--no-dropout", action="store_true")
    parser.add_argument("--output", type=Path, help="a file for the table")
    parser.add_argument("--setting", choices=SETTINGS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.setting:
        print(json.dumps(measure(args.setting, args.no_dropout)))
        return
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    lines = [
        f"| {backend} | a run, MB | estimate, MB | `--measure`, MB | estimate / run | `--measure` / run |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    for setting in args.only:
        command = [sys.executable, __file__, "--setting", setting, *(["--no-dropout"] if args.no_dropout else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{setting}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        sizes = " | ".join(f"{found[name] / 1e6:,.0f}" for name in ("run", "estimate", "extended"))
        ratios = " | ".join(f"{found[name] / found['run']:.2f}" for name in ("estimate", "extended"))
        lines.append(f"| {setting} | {sizes} | {ratios} |")
        print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join([*lines, ""]), encoding="utf-8")


def measure(setting, no_dropout):
    """Bytes of a run, as it takes them, by the estimate of a plan, and by its measurement."""
    import numpy as np

    from keras_bert_rebuild.data.corpora.documents import TokenCorpus
    from keras_bert_rebuild.recipes.planning.measured_memory import measure_memory
    from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
    from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *(f"w{i}" for i in range(VOCABULARY - len(special)))]
    starts = np.arange(0, 60_001, 60)
    ids = np.random.default_rng(0).integers(len(special), VOCABULARY, 60_000, dtype="int32")
    corpus = TokenCorpus(ids, starts, starts[::20], vocabulary)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if no_dropout else {}
    given = {**COMMON, **SETTINGS[setting]}
    if "phases" in given:
        given = {name: value for name, value in given.items() if name not in ("steps", "batch_size", "seq_len")}
    with tempfile.TemporaryDirectory() as folder:
        pretrain(corpus, Path(folder) / "small", given, model={**TINY, **rates})
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the highest resident set is that of now
        pretrain(corpus, Path(folder) / "run", given, model={**MODEL, **rates})
        measured = status("VmHWM") - before
    settings = PretrainSettings.from_dict({**given, "model": {**MODEL, **rates}})
    config = settings.model_config(VOCABULARY, 0)
    last = settings.all_phases[-1]
    rows = last.batch_size // settings.gradient_accumulation_steps
    longest = replace(settings, phases=(last,), batch_warmup=(), batch_warmup_steps=None)
    extended = measure_memory(config, longest, rows).total
    return {"run": measured, "estimate": estimate(config, settings), "extended": extended}


def estimate(config, settings):
    """Bytes of the most demanding step of a run by the estimate of a plan; growing batches need most at the end."""
    from keras_bert_rebuild.recipes.step_costs import step_memory

    found = []
    for phase in settings.all_phases:
        one = replace(settings, phases=(phase,), batch_warmup=(), batch_warmup_steps=None)
        found.append(step_memory(config, one, "cpu", phase.batch_size // settings.gradient_accumulation_steps).total)
    return max(found)


def status(name):
    """Bytes of this process, by their name in /proc/self/status."""
    with open("/proc/self/status") as file:
        return int(dict(line.split(":", 1) for line in file)[name].split()[0]) * 1024


if __name__ == "__main__":
    main()
