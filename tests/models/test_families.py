"""Every family builds, trains, saves and ignores padding."""

import keras
import numpy as np
import pytest
from helpers.small import answers

from keras_bert_rebuild import BertConfig, build_model, compile_model
from keras_bert_rebuild.families import FAMILIES, derived, own

SMALL = {
    "vocab_size": 50,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
HEADS = {"bert": ("mlm", "nsp"), "roberta": ("mlm",), "distilbert": ("mlm",), "albert": ("mlm", "sop"), "electra": ("mlm",)}


def small_config(family, **changes):
    defaults = own(FAMILIES[family], "DEFAULTS")
    fields = {"family": family, **defaults, **SMALL, **changes}
    if "embedding_size" in defaults:
        fields["embedding_size"] = 6
    return derived(BertConfig(**fields))


def batch(config, rng, pad=3):
    ids = rng.integers(4, config.vocab_size, (8, 10))
    ids[:, 10 - pad :] = config.pad_token_id
    chosen = np.zeros_like(ids)
    chosen[:, 2:4] = 1
    return ids, chosen


def inputs_of(model, ids, chosen):
    given = {"Input-Token": ids, "Input-Segment": ids * 0, "Input-Masked": chosen}
    return tuple(given[tensor.name] for tensor in model.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("family", HEADS)
def test_the_heads_train_at_gathered_positions(family, rng):
    config = small_config(family, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = compile_model(build_model(config, HEADS[family], seq_len=10), max_predictions=3, optimizer=keras.optimizers.Adam(0.01))
    ids, chosen = batch(config, rng)
    pair = rng.integers(0, 2, 8)
    labels = ids[..., None] if len(HEADS[family]) == 1 else (ids[..., None], pair)
    x = inputs_of(model, ids, chosen)
    history = model.fit(x, labels, epochs=40, batch_size=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    names = ["MLM", "NSP", "SOP"] if len(HEADS[family]) > 1 else []
    for name in names:
        if name in model.output_names:
            assert f"{name}_accuracy" in history
    whole = compile_model(model, max_predictions=None, optimizer=keras.optimizers.SGD(0.0))
    gathered = history["loss"][-1]
    assert whole.evaluate(x, labels, verbose=0, return_dict=True)["loss"] < gathered * 1.5


@pytest.mark.parametrize("family", HEADS)
def test_a_saved_model_is_loaded_with_its_config(family, rng, tmp_path):
    model = build_model(small_config(family), HEADS[family])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.config == model.config
    ids, _ = batch(model.config, rng)
    for one, other in zip(answers(model, ids, ids * 0), answers(again, ids, ids * 0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_groups_are_spans_of_layers():
    config = BertConfig(num_hidden_layers=6, num_hidden_groups=3)
    assert [config.block_of_layer(layer) for layer in range(6)] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="num_hidden_groups must divide num_hidden_layers=6; got 4"):
        BertConfig(num_hidden_layers=6, num_hidden_groups=4)


def test_initial_weights_have_the_deviation_of_the_config():
    config = small_config("bert", hidden_size=96, intermediate_size=400, initializer_range=0.1)
    model = build_model(config, ())
    for path in ("Encoder-1-FeedForward/intermediate/kernel", "Embedding-Token/embeddings"):
        (variable,) = (w for w in model.weights if w.path == path)
        # Truncated at two deviations, a normal distribution has 0.88 of its deviation.
        assert keras.ops.convert_to_numpy(variable).std() == pytest.approx(0.088, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 0}, "vocab_size must be a whole number of at least 1; got 0"),
        ({"hidden_size": 12.5}, "hidden_size must be a whole number of at least 1; got 12.5"),
        ({"hidden_dropout_prob": 1.0}, r"hidden_dropout_prob must be a rate in \[0, 1\); got 1.0"),
        ({"classifier_dropout": "much"}, r"classifier_dropout must be a rate in \[0, 1\); got 'much'"),
        ({"embedding_size": "128"}, "embedding_size must be a whole number of at least 1; got '128'"),
        ({"num_hidden_groups": 1.5}, "num_hidden_groups must be a whole number of at least 1; got 1.5"),
        # YAML reads 1e-12 as this string.
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps must be a number of at least 0 and at most 1,000; got '1e-12'"),
        ({"initializer_range": float("nan")}, "initializer_range must be a number of at least 0 and at most 1,000; got nan"),
        ({"labels": "positive"}, "labels must be a list of names; got the string 'positive'"),
    ],
)
def test_a_config_refuses_impossible_values(changes, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(**changes)


@pytest.mark.parametrize("heads", ["mlm", ["mlm", "cls"]])
def test_an_unknown_head_is_an_error_of_the_counts(heads):
    with pytest.raises(ValueError, match="heads must be a list of some of pooler, mlm"):
        BertConfig().num_params(heads)


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="an activation of Keras or one of gelu, gelu_erf, quick_gelu; got 'geglu'"):
        build_model(small_config("bert", hidden_act="geglu"))
    with pytest.raises(ValueError, match="heads must be a list of some of pooler, mlm"):
        build_model(small_config("bert"), ("mlm", "cls"))
    with pytest.raises(ValueError, match="heads must be a list of some of pooler, mlm"):
        build_model(small_config("bert"), "mlm")
    with pytest.raises(ValueError, match="seq_len must be at most 18"):
        build_model(small_config("roberta"), (), seq_len=19)
