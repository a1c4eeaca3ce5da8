"""Write `tests/golden/train_state`: KERAS_BACKEND=jax PYTHONPATH=tests python tests/training/make_golden_state.py"""

from pathlib import Path

import keras
import numpy as np
from helpers.small import compiled, small_batch, small_model

from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.train_state import read_state

if __name__ == "__main__":
    keras.utils.set_random_seed(7)
    model = small_model(
        dropout_rate=0.1, attention_probs_dropout_prob=0.1, transformer_num=1, token_num=12, embed_dim=4, feed_forward_dim=8
    )
    compiled(model, optimizer=keras.optimizers.Adam(use_ema=True))
    (ids, *others), (labels, nsp) = small_batch(np.random.default_rng(11))
    for _ in range(3):
        model.train_on_batch((ids % 12, *others), (labels % 12, nsp))
    CheckpointFolder(Path(__file__).parents[1] / "golden" / "train_state").save(3, read_state(model))
