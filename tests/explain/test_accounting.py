"""The accounting of a config equals the article, the published models and the built models."""

import json
import math

import keras
import numpy as np
import pytest
from helpers.small import initialized_by
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert_rebuild
from keras_bert_rebuild import BertConfig, build_model, get_model
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.config import CONFIG_CLASSES, HEADS
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.explain.explanation import explain
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.layers.keras_layers import skipped_initialization
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, train_flops

# The article's text for each of its steps, with its own spaces.
ARTICLE = {
    1: (0, "0"),
    2: (23040000, "30,000·768"),
    3: (1536, "2·768"),
    4: (393216, "768·512"),
    5: (1536, "2·768"),
    6: (2362368, "12·768·64·3 + 3·768 + 768·768 + 768"),
    7: (1536, "2·768"),
    8: (4722432, "(768·3,072 + 3,072) + (3,072·768 + 768)"),
    9: (1536, "2·768"),
    10: (590592, "768·768 + 768"),
    11: (1536, "2·768"),
    12: (30000, "30,000"),
    13: (590592, "768·768 + 768"),
    14: (1538, "2·768 + 2"),
}

PUBLISHED = {
    "bert-base-uncased": 109_482_240,
    "bert-large-uncased": 335_141_888,
    "distilbert-base-uncased": 66_362_880,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "albert-base-v2": 11_683_584,
    "electra-base-discriminator": 108_891_648,
    "albert-xxlarge-v2": 222_595_584,
}


@st.composite
def configs(draw):
    """A small config of any family, with any supported heads."""
    number = lambda least, most: draw(st.integers(least, most))  # noqa: E731
    heads = number(1, 3)
    groups = draw(st.sampled_from([None, 1, 2]))
    config = BertConfig(
        family=draw(st.sampled_from(sorted(set(FAMILIES) - set(CONFIG_CLASSES)))),
        vocab_size=number(1, 40),
        hidden_size=heads * number(1, 4),
        embedding_size=draw(st.sampled_from([None, 3, 5])),
        num_hidden_layers=2 * number(1, 2),
        num_hidden_groups=groups,
        num_attention_heads=heads,
        intermediate_size=number(1, 9),
        max_position_embeddings=number(3, 12),
        position_offset=number(0, 2),
        type_vocab_size=number(0, 3),
        num_tasks=draw(st.sampled_from([0, 0, 4])),
        labels=tuple("abcd"[: number(1, 4)]),
        crf=draw(st.booleans()),
        hidden_dropout_prob=draw(st.sampled_from([0.0, 0.1])),
    )
    return config, tuple(head for head in HEADS if draw(st.booleans()))


def test_the_fourteen_steps_and_numbers_of_the_article():
    explanation = explain(BertConfig(vocab_size=30000))
    assert {step.article: (step.each, step.numbers) for step in explanation.steps} == ARTICLE
    assert [step.params for step in explanation.steps if step.article in (6, 7, 8, 9)] == [28348416, 18432, 56669184, 18432]
    assert explanation.total("params") == 109_705_010
    assert explanation.total("bytes") == 4 * 109_705_010
    assert sum(step.share for step in explanation.steps) == pytest.approx(1)
    assert explanation.steps[5].formula == "A·D·(D/A)·3 + 3·D + D·D + D"


def test_published_sizes_come_from_configs_alone(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a layer was made")

    monkeypatch.setattr(keras.layers.Layer, "__init__", refuse)
    models = released()
    for name, count in PUBLISHED.items():
        assert explain(*models[name]).total("params") == count, name
    for module in FAMILIES.values():
        for name, _, count in module.SIZES:
            config, heads = models[name]
            assert explain(config, heads).total("params") == count
            assert sum(math.prod(shape) for _, shape in weights_of(config.encoder(), heads).values()) == count


# The counts of a config are the same on every backend; JAX compiles something for every new shape.
@settings(max_examples=3 if keras.config.backend() == "jax" else 12)
@given(configs())
def test_steps_and_shapes_equal_those_of_the_built_model(drawn):
    config, heads = drawn
    with skipped_initialization(np.zeros):
        model = build_model(config, heads)
    explanation = explain(config, heads)
    assert explanation.total("params") == model.count_params() == config.num_params(heads)
    assert {path: shape for path, (_, shape) in weights_of(config.encoder(), heads).items()} == {
        weight.path: tuple(weight.shape) for weight in model.weights
    }
    for step in explanation.steps:
        layers = [model.get_layer(step.layer.format(n=n + 1)) for n in range(step.blocks)] if step.params else []
        assert step.params == sum(layer.count_params() for layer in layers)
    assert explain(model).steps == explanation.steps
    keras.backend.clear_session()


@given(configs(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
def test_operations_equal_those_of_a_training_run(drawn, batch, length, predictions):
    config, _ = drawn
    length = min(length, config.max_length)
    predictions = min(predictions, length)
    explanation = explain(config, ["mlm", "nsp"], batch=batch, length=length, predictions=predictions)
    work = Work(batch * length, batch * length**2, batch * predictions, batch)
    assert explanation.total("forward") == forward_flops(config, work)
    assert explanation.total("train") == train_flops(config, work)


def test_the_retained_activations_of_a_block_equal_the_literature():
    config = BertConfig()
    explanation = explain(config, [], batch=3, length=128, dtype="mixed_bfloat16")
    s, b, h, a = 128, 3, 768, 12
    # Korthikanti et al., 2022, equation 1, without dropout's masks (2 sbh, a s² b) and its output probabilities (2 a s² b).
    expected = 12 * (34 * s * b * h - 2 * s * b * h + 5 * a * s * s * b - 3 * a * s * s * b)
    assert sum(step.kept for step in explanation.steps if step.part == "Encoder block") == expected


@pytest.mark.skipif(keras.config.backend() != "jax", reason="XLA counts for JAX")
@pytest.mark.parametrize(
    ("sizes", "length"),
    [
        ({"vocab_size": 900, "hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 2048}, 64),
        pytest.param({"vocab_size": 30000}, 128, marks=pytest.mark.slow(torch=True)),
    ],
    ids=["small", "base"],
)
def test_matrix_operations_agree_with_those_xla_counts_before_it_fuses(sizes, length):
    import jax

    with initialized_by(np.zeros):
        model = get_model(**_keras_bert_names(sizes), seq_len=length, dropout_rate=0.0)
    ids = jax.ShapeDtypeStruct((2, length), "int32")
    explanation = explain(model, batch=2, length=length)
    forward = jax.jit(lambda *inputs: model(inputs, training=False)).lower(ids, ids, ids).cost_analysis()["flops"]
    assert explanation.total("forward") == pytest.approx(forward, rel=0.02)
    weights = [weight.value for weight in model.trainable_variables]

    def loss(weights, *inputs):
        (mlm, nsp), _ = model.stateless_call(weights, [v.value for v in model.non_trainable_variables], inputs, training=True)
        return mlm.sum() + nsp.sum()

    train = jax.jit(jax.grad(loss)).lower(weights, ids, ids, ids).cost_analysis()["flops"]
    assert explanation.total("train") == pytest.approx(train, rel=0.02)


def _keras_bert_names(sizes):
    names = {
        "vocab_size": "token_num",
        "hidden_size": "embed_dim",
        "num_hidden_layers": "transformer_num",
        "num_attention_heads": "head_num",
        "intermediate_size": "feed_forward_dim",
    }
    return {names[field]: value for field, value in sizes.items()}


def test_added_layers_are_listed_and_a_config_is_read_from_layers():
    config = BertConfig(
        family="albert", vocab_size=30, hidden_size=8, embedding_size=4, num_hidden_layers=4, num_hidden_groups=2,
        num_attention_heads=2, intermediate_size=9, max_position_embeddings=12, type_vocab_size=3,
    )  # fmt: skip
    encoder = build_model(config)
    model = keras.Model(encoder.inputs, keras.layers.Dense(5, name="[bold]mine")(encoder.output))
    explanation = keras_bert_rebuild.explain(model, length=6)
    assert explanation.total("params") == model.count_params()
    assert (explanation.steps[-1].name, explanation.steps[-1].params) == ("[bold]mine", 45)
    assert explanation.steps[:-1][-1].runs == 4
    assert "[bold]mine" in str(explanation)
    assert explain(encoder, length=6).total("params") == encoder.count_params()


def test_a_layer_with_the_name_of_a_step_is_counted_where_it_is():
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9)
    encoder, predictor = build_model(config), build_model(config, ["mlm"])
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")]
    outside = keras.Model(inputs, keras.layers.Dense(3, name="Classification")(encoder(inputs)))
    without_pooler = keras.Model(encoder.inputs, keras.layers.Dense(3, name="Classification")(encoder.output))
    half_a_head = keras.Model(predictor.inputs[:2], predictor.get_layer("MLM-Norm").output)
    again_outside = keras.Model(inputs, encoder.get_layer("Embedding-Norm")(encoder(inputs)))
    for model in (outside, without_pooler, half_a_head, again_outside):
        explanation = explain(model, length=6)
        assert explanation.total("params") == model.count_params()
        assert explanation.heads == ()


def test_the_activation_of_a_hand_built_model_is_that_of_its_layers():
    sizes = {"embed_dim": 8, "head_num": 2, "transformer_num": 1, "feed_forward_dim": 9, "pos_num": 6, "seq_len": 6}
    for activation, said in (("gelu_erf", "Here the activation is gelu_erf."), ("relu", None)):
        model = keras.Model(*get_model(30, training=False, feed_forward_activation=activation, **sizes))
        steps = [sentence for sentence in explain(model).corrections if sentence.startswith("Step 8")]
        assert [sentence.endswith(said) for sentence in steps] == ([True] if said else [])


def test_bytes_follow_the_dtype_policy_of_the_model():
    keras.config.set_dtype_policy("mixed_bfloat16")
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9)
    model = build_model(config)
    explanation = explain(model, length=6)
    assert explanation.dtype == "mixed_bfloat16"
    assert explanation.total("kept") * 2 == explain(config, [], length=6).total("kept")
    assert explanation.total("bytes") == 4 * model.count_params()


def test_json_holds_every_number():
    values = json.loads(explain(BertConfig(vocab_size=30000, hidden_act=keras.activations.relu)).json_text())
    assert values["totals"]["params"] == sum(step["params"] for step in values["steps"]) == 109_705_010
    assert values["config"]["hidden_act"] == "relu"
    assert not any("ReLU" in sentence for sentence in values["corrections"])


def test_what_does_not_fit_is_one_sentence():
    config = BertConfig()
    for arguments, message in (
        ((config, "mlm"), "heads must be a list of some of pooler"),
        ((config, ["cls"]), "heads must be a list of some of pooler"),
        ((config, ["classification"]), "must have labels"),
        (("bert",), "expected a BertConfig or a model; got str"),
        ((config.replace(num_attention_heads=7),), "must divide hidden_size=768; got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            explain(*arguments)
    whole = build_model(BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9))
    half = keras.Model(whole.inputs, whole.get_layer("Encoder-1-MultiHeadSelfAttention-Norm").output)
    with pytest.raises(ValueError, match="complete encoder blocks; Encoder-1-FeedForward, Encoder-1-FeedForward-Norm is missing"):
        explain(half)
    for options, message in (
        ({"length": 513}, "length must be at least 1 and at most 512; got 513"),
        ({"batch": 0}, "batch must be at least 1; got 0"),
        ({"length": 8, "predictions": 9}, "predictions must be at least 1 and at most 8; got 9"),
        ({"dtype": "int8"}, "dtype must be one of float32, .*; got 'int8'"),
    ):
        with pytest.raises(ValueError, match=message):
            explain(config, **options)
