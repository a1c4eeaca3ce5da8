"""DeBERTa: its folds, its files, and what is refused."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import small_tokenizers
from helpers.small import random_model

from keras_bert_rebuild import (
    build_model,
    explain,
    from_pretrained,
    load_tokenizer,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory
from keras_bert_rebuild.training.distributed.distribution import axes_of

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = DebertaV2Config(
    vocab_size=31,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    position_buckets=8,
    labels=("a", "b"),
)
ODD = CONFIG.replace(
    share_att_key=False, conv_kernel_size=3, conv_act="gelu_erf", position_biased_input=True, type_vocab_size=2, norm_rel_ebd="none"
)
GIVEN = {"model_type": "deberta-v2", "relative_attention": True, "pos_att_type": "p2c|c2p"}


@pytest.fixture(params=[CONFIG, ODD], ids=["plain", "odd"])
def config(request):
    return request.param


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 31, (2, 13)).astype("int32")
    ids[1, 9:] = 0
    return ids


def inputs_of(model, ids):
    known = {"Input-Token": ids, "Input-Segment": ids % 2, "Input-Masked": np.ones_like(ids)}
    return [known[tensor.name] for tensor in model.inputs]


def states(model, ids):
    return array_of(model(bare_if_one(inputs_of(model, ids)), training=False))


def array_of(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.stop_gradient(tensor), "float32"))


def test_the_model_has_the_layers_of_its_parts(config):
    model = build_model(config, ("mlm",))
    rows = [layer.name for layer in model.layers]
    assert "Embedding-Relative" in rows
    assert ("Encoder-1-Convolution" in rows) == (config is ODD)
    assert "Encoder-2-Convolution" not in rows


def test_what_stands_at_padding_changes_no_token(rng, ids):
    model = random_model(ODD, (), rng)
    other = np.where(ids == 0, 7, ids)
    masked = build_model(ODD, padding_mask=True)
    for variable, same in zip(masked.weights, model.weights, strict=True):
        variable.assign(same)
    real = ids != 0
    answers = [array_of(masked([tokens, ids % 2, real.astype("int32")], training=False))[real] for tokens in (ids, other)]
    np.testing.assert_array_equal(*answers)
    np.testing.assert_allclose(answers[0], states(model, ids)[real], atol=1e-6)


def test_released_sizes_are_counted():
    base = DebertaV2Config()
    assert base.num_params(()) == 183_831_552
    assert explain(base, ()).letters["R"] == 512
    assert forward_flops(base, Work(10, 100, 2, 1)) > forward_flops(base.replace(pos_att_type=("c2p",)), Work(10, 100, 2, 1))
    phase = PretrainSettings(batch_size=2, seq_len=16, max_predictions=2)
    assert step_memory(CONFIG, phase, "gpu", 2).activations > 0
    assert axes_of("Encoder-2-MultiHeadSelfAttention/position_key/kernel", (12, 12), 4) == (None, "model")


def test_dropout_of_distances_draws_in_training_only(rng, ids):
    model = build_model(CONFIG.replace(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3))
    np.testing.assert_array_equal(states(model, ids), states(model, ids))
    drawn = [array_of(model(ids, training=True)) for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 0


def test_the_names_in_a_file_decide_which_mlm_head_it_has(tmp_path):
    for file in (GOLDEN / "deberta_masked_lm").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    values = json.loads((tmp_path / "config.json").read_text())
    assert values.pop("legacy") is False
    (tmp_path / "config.json").write_text(json.dumps(values))
    model = from_pretrained(tmp_path)
    assert (heads_of(model), model.config.legacy) == (("mlm",), False)


def test_its_tokenizer_is_read_and_written_and_its_page_is_drawn(rng, tmp_path):
    (tmp_path / "spm.model").write_bytes(small_tokenizers.sentencepiece("deberta_v2"))
    (tmp_path / "config.json").write_text('{"model_type": "deberta-v2"}')
    tokenizer = load_tokenizer(tmp_path)
    model = random_model(CONFIG.replace(vocab_size=len(tokenizer)), (), rng)
    save_pretrained(model, tmp_path / "saved", vocabulary=tokenizer)
    back = load_tokenizer(tmp_path / "saved")
    text = "the harbour [MASK]"
    assert back.encode_batch([text], pad_to="longest").ids.tolist() == tokenizer.encode_batch([text], pad_to="longest").ids.tolist()
    assert show_attention(model, back, "the harbour was quiet").html.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"relative_attention": False}, "relative_attention and pos_att_type must be given together"),
        ({"pos_att_type": "c2p|p2p"}, "pos_att_type must consist of c2p and p2c; got c2p, p2p"),
        ({"position_buckets": 7}, "position_buckets must be even and at least 4, or 0 for none; got 7"),
        (
            {"position_buckets": 256, "max_relative_positions": 100},
            "max_relative_positions must be at least 130 with",
        ),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd must be layer_norm or none; got 'batch_norm'"),
        ({"conv_kernel_size": 4}, "conv_kernel_size must be odd"),
        ({"conv_kernel_size": 3, "conv_act": "nothing"}, "expected an activation among"),
        ({"pooler_hidden_size": 8}, "pooler_hidden_size must be hidden_size=1536; got 8"),
        ({"attention_head_size": 32}, "attention_head_size must be hidden_size / num_attention_heads; got 32"),
        ({"legacy": False, "embedding_size": 128}, "legacy must be True if embedding_size differs from hidden_size"),
        ({"share_att_key": "yes"}, "share_att_key must be True or False; got 'yes'"),
    ],
)
def test_settings_that_are_not_computed_are_refused_in_a_sentence(changes, said):
    with pytest.raises(ValueError, match=said) as error:
        config_from_huggingface({**GIVEN, **changes})
    assert "\n" not in str(error.value)
