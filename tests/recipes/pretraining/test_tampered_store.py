"""A changed store is not trained on: neither at the start of a run nor when it resumes."""

import numpy as np
import pytest

from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

SETTINGS = {
    "model": {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16},
    "steps": 2,
    "batch_size": 4,
    "seq_len": 16,
    "held_out": 0.0,
    "save_steps": 1,
    "log_steps": 1,
    "workers": 0,
}


@pytest.fixture
def store(tmp_path):
    words = [f"w{i}" for i in range(20)]
    (tmp_path / "v.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    rng = np.random.default_rng(3)
    documents = ("\n".join(" ".join(rng.choice(words, 6)) for _ in range(4)) for _ in range(12))
    (tmp_path / "c.txt").write_text("\n\n".join(documents))
    prepare(tmp_path / "c.txt", tmp_path / "v.txt", tmp_path / "store", workers=1)
    return tmp_path / "store"


def flip(store):
    """Flip one bit of one id, which is then another token of the vocabulary."""
    path = store / "shard-000000.ids.npy"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_is_found_at_the_start_unless_verification_is_off(store, tmp_path):
    flip(store)
    with pytest.raises(ValueError, match=r"expected the bytes that .* wrote; .*shard-000000\.ids\.npy was changed"):
        pretrain(store, tmp_path / "run", SETTINGS)
    assert not (tmp_path / "run").exists()
    pretrain(store, tmp_path / "run", SETTINGS, verify=False)


def test_a_flipped_bit_is_found_when_a_run_resumes(store, tmp_path):
    pretrain(store, tmp_path / "run", SETTINGS)
    flip(store)
    with pytest.raises(ValueError, match="was changed"):
        pretrain(store, tmp_path / "run", SETTINGS)
