"""`keras-bert pretrain` on a small corpus as one of two hosts: `python hosts_run.py DEATH SIGNAL OPTIONS...`.

It kills itself before it makes batch number DEATH, or sends itself SIGNAL there; -1 means never.
"""

import os
import signal
import sys

from helpers.small_corpus import small_corpus
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.recipes.pretraining import pretrain as recipe
from keras_bert_rebuild.recipes.pretraining import step_spans

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
STEPS = 20
SETTINGS = {
    "model": TINY,
    "steps": STEPS,
    "batch_size": 8,
    "seq_len": 16,
    "learning_rate": 1e-3,
    "warmup_steps": 2,
    "held_out": 0,
    "log_steps": 1,
    "save_steps": 5,
    "workers": 2,
    "jit_compile": True,
}


def corpus():
    return small_corpus(documents=10, passages=4, longest=10)


def die_at(number, kind):
    make = step_spans.SpanOfBatches.__getitem__

    def dying(self, index):
        if self._start + index == number:
            os.kill(os.getpid(), kind)
        return make(self, index)

    step_spans.SpanOfBatches.__getitem__ = dying


def run(options):
    recipe.TokenStore = lambda path: corpus()
    return main(["pretrain", "the small corpus", *options])


if __name__ == "__main__":
    death, kind, *options = sys.argv[1:]
    die_at(int(death), signal.Signals[kind])
    sys.exit(run(options))
