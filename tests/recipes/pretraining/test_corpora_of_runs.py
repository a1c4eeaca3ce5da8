"""What runs read: several corpora by weight, and no store that was changed."""

import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

SETTINGS = {**small_runs.FOUR_STEPS, "next_sentence": "none"}


def mixed(weights=(3, 1)):
    documents = small_corpus(documents=24, passages=4, longest=10)
    return MixedCorpus([SomeDocuments(documents, range(14)), SomeDocuments(documents, range(14, 24))], weights)


@pytest.fixture(scope="module", params=[False, True], ids=["padded", "packed"])
def whole(request, tmp_path_factory):
    settings = {**SETTINGS, "packing": request.param}
    return settings, small_runs.whole_run(mixed(), tmp_path_factory.mktemp("runs") / "run", settings)


@pytest.mark.slow
def test_the_settings_of_a_run_name_its_corpora_and_their_shares(whole):
    _, (folder, rows, _) = whole
    corpus = yaml.safe_load((folder / "settings.yaml").read_text())["corpus"]
    assert [part["share"] for part in corpus["mixed"]] == [0.75, 0.25]
    assert [part["documents"] for part in corpus["mixed"]] == [14, 10]
    assert sum(part["tokens"] for part in corpus["mixed"]) == corpus["tokens"]
    assert rows[-1]["held_out_loss"] > 0


@pytest.mark.slow
@pytest.mark.slow(torch=True)
def test_a_stopped_run_ends_with_the_same_bits(whole, tmp_path):
    settings, run = whole
    small_runs.check_resumption(run, mixed(), tmp_path / "run", settings)


@pytest.mark.slow
def test_other_weights_are_another_run(whole):
    settings, (folder, _, _) = whole
    with pytest.raises(ValueError, match=r"holds a run on another corpus: .*share"):
        pretrain(mixed((1, 1)), folder, settings)


# A changed store is not trained on: neither at the start of a run nor when it resumes.


TWO_STEPS = {
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
        pretrain(store, tmp_path / "run", TWO_STEPS)
    assert not (tmp_path / "run").exists()
    pretrain(store, tmp_path / "run", TWO_STEPS, verify=False)


def test_a_flipped_bit_is_found_when_a_run_resumes(store, tmp_path):
    pretrain(store, tmp_path / "run", TWO_STEPS)
    flip(store)
    with pytest.raises(ValueError, match="was changed"):
        pretrain(store, tmp_path / "run", TWO_STEPS)
