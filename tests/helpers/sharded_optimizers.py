"""Trains with Muon and StableAdamW on one device and on several that share weights; prints the largest differences as JSON."""

import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

from helpers import small_runs
from helpers.small_corpus import small_corpus
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

if __name__ == "__main__":
    corpus, found = small_corpus(documents=16, passages=4, longest=10), {}
    for optimizer in ("muon", "stable_adamw"):
        settings = {**small_runs.FOUR_STEPS, "optimizer": optimizer, "batch_size": 8, "learning_rate": 1e-3}
        trained = []
        for kind in ({"distribute": "none"}, {"distribute": "model", "model_devices": 2}):
            with tempfile.TemporaryDirectory() as folder:
                model = pretrain(corpus, Path(folder) / "run", settings, **kind)
                trained.append([keras.ops.convert_to_numpy(weight) for weight in model.weights])
        found[optimizer] = max(float(np.abs(a - b).max()) for a, b in zip(*trained, strict=True))
    json.dump(found, sys.stdout)
    print()
