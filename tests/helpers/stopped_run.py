"""`keras-bert` in a process that stops itself when its output is locked, or kills itself when it first makes a file durable.

`python stopped_run.py lock|write|never VERB ...`; a small demo, since what is trained does not matter.
"""

import os
import signal
import sys
from dataclasses import replace

from keras_bert_rebuild.cli import demo, demo_texts
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.files import locked

SMALL = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}


def stop_when_locked():
    write_holder = locked._write_holder

    def stopping(file):
        locked._write_holder = write_holder
        write_holder(file)
        os.kill(os.getpid(), signal.SIGSTOP)

    locked._write_holder = stopping


def die_when_written():
    def dying(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = os.replace = os.rename = os.link = dying


if __name__ == "__main__":
    article = {"transformer_num": 1, "embed_dim": 24, "feed_forward_dim": 48, "token_num": 300}
    demo.ARTICLE_MODEL = {**demo.ARTICLE_MODEL, **article}
    shortened = {"sizes": SMALL, "evaluation_steps": 2, "compiled": ("jax",)}
    demo.WORLD, demo.DOCSTRINGS = replace(demo.WORLD, steps=2, **shortened), replace(demo.DOCSTRINGS, **shortened)
    demo_texts.VOCAB_SIZE = 300
    {"lock": stop_when_locked, "write": die_when_written, "never": lambda: None}[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
