"""The loop of `keras-bert pretrain` against its bare step: the same model and batches, no callbacks, batches already on the device.

Command: KERAS_BACKEND=jax python benchmarks/pretrain_loop.py --rounds 8
Time: a minute on two cores
On a GPU: the same with --size base --batch 128 --length 128 --dtype mixed_bfloat16

The two take turns on one model in one process: a span of the run (`--steps` steps, with its row of the curve and its part of the
checkpoints), then as many bare steps, which call the compiled step and wait for the last loss only. The first rounds, which
compile, are left out; what is printed are medians, their ratio, and the ratio of every round. A save is part of the span before it.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.recipes.pretraining.pretrain import training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import TrainingRun

SIZES = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256},
    "small": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
WARM = 2  # rounds that compile and fill caches


def random_corpus(vocabulary=8000, documents=400, passages=10, longest=120):
    """Random tokens: what a step and a batch cost does not depend on the text."""
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(rng.integers(20, longest + 1, documents * passages))])
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *(f"w{i}" for i in range(vocabulary - len(special)))]
    ids = rng.integers(len(special), vocabulary, starts[-1]).astype("int32")
    return TokenCorpus(ids, starts, starts[::passages], tokens)


def bare_steps(model, batches):
    """Run the compiled training step on every batch; the seconds of all of them."""
    function, jax = model.train_function, keras.backend.backend() == "jax"
    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables)
    state = tuple([variable.value for variable in group] for group in groups)
    if keras.backend.backend() == "torch":
        model.train()
    started = time.perf_counter()
    for batch in batches:
        if jax:
            logs, state = function(state, iter([batch]))
        else:
            logs = function([batch])
    float(logs["loss"])
    seconds = time.perf_counter() - started
    if jax:  # the step took the former arrays
        for group, values in zip(groups, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
    return seconds


class Turns:
    """Called with every row of a run: times the span before it, then as many bare steps."""

    def __init__(self, steps):
        self.steps, self.spans, self.bare, self.started = steps, [], [], None

    def __call__(self, row):
        if "loss" in row or "mlm_loss" in row:
            self.spans.append(time.perf_counter() - self.started)
            self.bare.append(bare_steps(self.model, self.batches))
        self.started = time.perf_counter()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50, help="steps of a span, as --log-steps of keras-bert pretrain")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--save-steps", type=int, help="steps between checkpoints; none unless given")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    keras.config.set_dtype_policy(args.dtype)
    total = (args.rounds + WARM) * args.steps
    settings = PretrainSettings(
        model=SIZES[args.size], steps=total, batch_size=args.batch, seq_len=args.length, log_steps=args.steps, held_out=0,
        evaluate_steps=total, save_steps=args.save_steps or total, workers=args.workers, dtype=args.dtype,
    )  # fmt: skip
    corpus = random_corpus()
    data = training_batches(corpus, settings.all_phases[0], settings)
    model = settings.learned.build(settings.model_config(len(corpus.vocabulary), 0), settings)
    turns = Turns(args.steps)
    turns.model = model
    turns.batches = [keras.tree.map_structure(keras.ops.convert_to_tensor, data.batch(0, i)) for i in range(args.steps)]
    with tempfile.TemporaryDirectory() as folder:
        TrainingRun(model, settings, Path(folder), [data], [None], turns).finish()
    spans, bare = ([seconds / args.steps * 1e3 for seconds in found[WARM:]] for found in (turns.spans, turns.bare))
    ratios = [span / step for span, step in zip(spans, bare, strict=True)]
    print(f"{keras.backend.backend()}, {args.size}, {args.batch} x {args.length}, {args.dtype}, {args.steps} steps a round")
    print(
        f"loop {statistics.median(spans):.2f} ms a step, bare {statistics.median(bare):.2f}, ratio {statistics.median(ratios):.3f}"
    )
    print("ratios", *(f"{ratio:.3f}" for ratio in ratios))


if __name__ == "__main__":
    main()
