"""The encoder of the Transformer follows the paper, and everything that the library does with BERT it does with it."""

import math

import keras
import numpy as np
import pytest
from helpers.reference import layer_norm, softmax
from helpers.reference import weights_of as values_of
from helpers.small import spread
from helpers.small_corpus import small_corpus
from helpers.small_tasks import PETS, TOKENIZER, VOCABULARY

from keras_bert_rebuild import (
    BertConfig,
    TextClassifier,
    add_lora,
    attention_maps,
    build_model,
    compile_model,
    explain,
    finetune,
    from_pretrained,
    load_task,
    plan,
    predict,
    pretrain,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.config_at import config_at
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.families.transformer import SIZES, TransformerConfig
from keras_bert_rebuild.layers import TrigPosEmbedding
from keras_bert_rebuild.models.build_model import dtype_scope
from keras_bert_rebuild.models.encoder_blocks import HALVES
from keras_bert_rebuild.recipes.settings import size_fields
from keras_bert_rebuild.tasks.embedding_model import longest_row

CONFIG = TransformerConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=24,
    hidden_dropout_prob=0.0,
    max_position_embeddings=40,
    labels=("a", "b"),
)
HEADS = ("mlm", "classification")

# Table 3 of the paper: N, d_model, d_ff and millions of parameters, for which 0.5 million is rounding. Row (B) has other heads.
TABLE_3 = [
    (6, 512, 2048, 65),
    (2, 512, 2048, 36),
    (4, 512, 2048, 50),
    (8, 512, 2048, 80),
    (6, 256, 2048, 28),
    (6, 1024, 2048, 168),
    (6, 512, 1024, 53),
    (6, 512, 4096, 90),
    (6, 1024, 4096, 213),
]


def attention_size(d):
    return 4 * d * d  # W_Q, W_K, W_V and W_O of all heads, h · 3 · d · d/h + d · d: section 3.2.2


def feed_forward_size(d, inner):
    return d * inner + inner + inner * d + d  # W_1, b_1, W_2, b_2: equation 2


def encoder_size(n, d, inner):
    return n * (attention_size(d) + feed_forward_size(d, inner) + 2 * 2 * d)


def decoder_size(n, d, inner):
    return n * (2 * attention_size(d) + feed_forward_size(d, inner) + 3 * 2 * d)


def encoding(length, d):
    """PE, equation by equation of section 3.5, float64."""
    rows = np.zeros((length, d))
    for pos in range(length):
        for i in range(d // 2):
            rows[pos, 2 * i] = math.sin(pos / 10000 ** (2 * i / d))
            rows[pos, 2 * i + 1] = math.cos(pos / 10000 ** (2 * i / d))
    return rows


def plain_states(w, ids, config):
    """Every hidden state, the embedding first, and the probabilities of attention, in float64."""
    (batch, length), d, h = ids.shape, config.hidden_size, config.num_attention_heads
    x = w["Embedding-Token/embeddings"][ids] * math.sqrt(d) + encoding(length, d)
    states, maps = [x], []
    for n in range(1, config.num_hidden_layers + 1):
        name = f"Encoder-{n}-MultiHeadSelfAttention"
        q, k, v = (
            (x @ w[f"{name}/{part}/kernel"] + w.get(f"{name}/{part}/bias", 0)).reshape(batch, length, h, d // h)
            for part in ("query", "key", "value")
        )
        scores = np.einsum("blhk,bshk->bhls", q, k) / math.sqrt(d // h)
        maps.append(softmax(np.where((ids == 0)[:, None, None], -1e30, scores)))
        heads = np.einsum("bhls,bshk->blhk", maps[-1], v).reshape(batch, length, d)
        y = heads @ w[f"{name}/output/kernel"] + w.get(f"{name}/output/bias", 0)
        x = layer_norm(x + y, w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"], config.layer_norm_eps)
        name = f"Encoder-{n}-FeedForward"
        inner = np.maximum(0, x @ w[f"{name}/intermediate/kernel"] + w[f"{name}/intermediate/bias"])
        y = inner @ w[f"{name}/output/kernel"] + w[f"{name}/output/bias"]
        x = layer_norm(x + y, w[f"{name}-Norm/gamma"], w[f"{name}-Norm/beta"], config.layer_norm_eps)
        states.append(x)
    return states, np.array(maps)


def numpy(x):
    return keras.ops.convert_to_numpy(keras.ops.stop_gradient(x))


@pytest.fixture
def model(rng):
    return spread(build_model(CONFIG, HEADS), rng)


@pytest.fixture
def ids(rng):
    ids = rng.integers(5, len(VOCABULARY), (2, 11)).astype("int32")
    ids[1, 8:] = 0
    return ids


@pytest.mark.parametrize(("n", "d", "inner", "millions"), TABLE_3)
def test_parameters_are_those_of_the_formulas_and_with_a_decoder_those_of_table_3(n, d, inner, millions):
    config = TransformerConfig(hidden_size=d, num_hidden_layers=n, intermediate_size=inner, num_attention_heads=d // 64)
    assert config.num_params([]) == 37000 * d + encoder_size(n, d, inner)
    # The paper does not state the size of its vocabulary to the last token.
    with_decoder = config.num_params([]) + decoder_size(n, d, inner)
    assert with_decoder / 1e6 == pytest.approx(millions, rel=0.07)
    if d == 512:  # the vocabulary is the same, so the differences are those of the blocks
        base = 37000 * d + encoder_size(6, d, 2048) + decoder_size(6, d, 2048)
        assert (with_decoder - base) / 1e6 == pytest.approx(millions - 65, abs=1)


def test_sizes_of_the_paper_have_names():
    for name, fields, count in SIZES:
        config = TransformerConfig(**fields)
        assert config.num_params([]) == explain(*config_at(name)).total("params") == count
        assert BertConfig.from_dict(size_fields(name)) == config
    big = TransformerConfig(**dict(SIZES[1][1]))
    assert (big.hidden_size // big.num_attention_heads, big.hidden_dropout_prob) == (64, 0.3)
    assert plan("transformer-base", gpus=1, gpu="h100", batch_size=8, seq_len=64, next_sentence="none").to_dict()


def test_positions_are_those_of_the_paper_at_any_distance():
    got = numpy(TrigPosEmbedding()(np.zeros((1, 700, 512), "float32")))[0]
    np.testing.assert_allclose(got[:20], encoding(20, 512), atol=2e-6)
    np.testing.assert_allclose(got, encoding(700, 512), atol=1e-4)  # a float32 angle of 700 has an error of 6e-5
    # "for any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)": a rotation of each pair.
    k, speeds = 5, 10000.0 ** -(np.arange(0, 512, 2) / 512)
    sine, cosine = got[:100, 0::2], got[:100, 1::2]
    np.testing.assert_allclose(got[k : 100 + k, 0::2], sine * np.cos(k * speeds) + cosine * np.sin(k * speeds), atol=1e-4)
    np.testing.assert_allclose(got[k : 100 + k, 1::2], cosine * np.cos(k * speeds) - sine * np.sin(k * speeds), atol=1e-4)


def test_the_graph_has_the_rows_and_weights_of_the_anatomy():
    model = build_model(
        TransformerConfig(num_hidden_layers=1, vocab_size=9, hidden_size=4, num_attention_heads=1, intermediate_size=8)
    )
    assert [layer.name for layer in model.layers] == [
        *("Input-Token", "Embedding-Token", "Embedding-Scale", "Embedding-Position", "Embedding-Dropout"),
        *(f"Encoder-1-{half}{end}" for half in HALVES for end in ("", "-Dropout", "-Add", "-Norm")),
    ]  # fmt: skip
    shapes = {path: shape for path, (_, shape) in weights_of(model.config.encoder(), ()).items()}
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == shapes
    assert model.count_params() == model.config.num_params([]) == explain(model).total("params")


@pytest.mark.parametrize("bias", [False, True])
def test_hidden_states_and_attention_maps_equal_plain_numpy(rng, ids, bias):
    config = CONFIG.replace(attention_bias=bias)
    encoder = spread(build_model(config, output_layer_num=[2, 1, 0]), rng)
    states, maps = plain_states(values_of(encoder), ids, config)
    got = np.split(numpy(encoder(ids)), 3, -1)
    for number in range(3):
        np.testing.assert_allclose(got[number][ids != 0], states[number + 1][ids != 0], atol=2e-5)
    shown = attention_maps(encoder, ids).probabilities  # (layers, batch, heads, length, length)
    np.testing.assert_allclose(shown[:, 0], maps[:, 0], atol=1e-5)
    np.testing.assert_allclose(shown[:, 1, :, :8, :8], maps[:, 1, :, :8, :8], atol=1e-5)


def test_a_model_of_no_fixed_length_takes_texts_beyond_its_config(rng):
    encoder = spread(build_model(CONFIG), rng)
    ids = rng.integers(5, len(VOCABULARY), (1, 61)).astype("int32")
    np.testing.assert_allclose(numpy(encoder(ids)), plain_states(values_of(encoder), ids, CONFIG)[0][-1], atol=5e-5)


@pytest.mark.slow
def test_it_trains_and_rematerialisation_and_gathering_change_no_number(rng, ids):
    inputs = [ids, np.eye(2, 11, dtype="int32")]
    model = spread(build_model(CONFIG, ("mlm",)), rng)
    start, ends = model.get_weights(), []
    for settings in ({}, {"remat": True}, {"max_predictions": 2}):
        model.set_weights(start)
        compile_model(model, optimizer=keras.optimizers.SGD(0.1), jit_compile=False, **settings)
        model.train_on_batch(inputs, {"MLM": ids})
        ends.append(model.get_weights())
    for before, plain, *others in zip(start, *ends, strict=True):
        assert np.abs(plain - before).max() > 0
        for other in others:
            np.testing.assert_allclose(other, plain, atol=1e-6)


def test_half_precision_is_close(rng, ids):
    encoder = spread(build_model(CONFIG), rng, 0.1)
    with dtype_scope("mixed_bfloat16"):
        half = build_model(CONFIG)
    half.set_weights(encoder.get_weights())
    expected, got = numpy(encoder(ids)), np.asarray(numpy(keras.ops.cast(half(ids), "float32")))
    np.testing.assert_allclose(got[ids != 0], expected[ids != 0], atol=0.1)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_saved_model_is_loaded_with_its_config(model, ids, tmp_path, ending):
    model.save(tmp_path / f"model.{ending}")
    back = keras.saving.load_model(tmp_path / f"model.{ending}")
    assert back.config == CONFIG
    assert isinstance(back.config, TransformerConfig)
    for one, other in zip(model.predict([ids, ids], verbose=0), back.predict([ids, ids], verbose=0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_folders_and_weights_of_keras_are_read_bit_exactly(model, tmp_path):
    save_pretrained(model, tmp_path / "folder", "keras", vocabulary=VOCABULARY)
    model.save_weights(tmp_path / "model.weights.h5")
    for back in (
        from_pretrained(tmp_path / "folder"),
        from_pretrained(tmp_path / "model.weights.h5", config=CONFIG, heads=HEADS),
    ):
        assert back.config == CONFIG
        for path, value in values_of(model).items():
            np.testing.assert_array_equal(values_of(back)[path], value)


def test_formats_without_names_for_it_are_refused_in_one_sentence(model, tmp_path):
    sentence = "which have a Hugging Face format; got 'transformer', whose models are saved with format 'keras'"
    with pytest.raises(ValueError, match=sentence):
        save_pretrained(model, tmp_path / "folder")
    with pytest.raises(ValueError, match=sentence):
        weight_names(CONFIG, ["mlm"])
    with pytest.raises(ValueError, match="Google's format has no names for the family transformer"):
        save_pretrained(model, tmp_path / "folder", "google")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_offset": 2}, "position_offset must be 0, since positions are computed from 0; got 2"),
        ({"attention_bias": None}, "attention_bias must be True or False; got None"),
    ],
)
def test_a_config_refuses_what_the_encoder_does_not_have(changes, message):
    with pytest.raises(ValueError, match=message):
        CONFIG.replace(**changes)


def test_the_explanation_has_the_terms_of_the_paper(model):
    explanation = explain(model)
    steps = {step.name: step for step in explanation.steps}
    assert (steps["Positional encoding"].params, steps["Scaling"].params) == (0, 0)
    assert steps["Attention"].formula == "A·D·(D/A)·3 + D·D"
    said = " ".join(explanation.corrections)
    for words in ("multiplied by 4 before its positional encoding", "PE(pos, 2i) = sin(pos / 10000^(2i / 16))", "no parameters"):
        assert words in said
    assert "ReLU" not in said
    assert "gamma" not in said
    picture = plot_model(CONFIG).to_svg()
    assert "Positional encoding" in picture
    assert "Token embedding × 4" in picture
    hand_built = build_model(CONFIG)
    hand_built.config = None
    with pytest.raises(ValueError, match="a model without a config must have BERT's layers: a position table"):
        explain(hand_built)


def test_its_embedding_is_split_into_scaled_tokens_and_positions(model):
    found = embedding_anatomy(model, TOKENIZER, "the cat sat")
    assert found.parts == ("token", "position")
    np.testing.assert_allclose(found.vectors[0], 4 * values_of(model)["Embedding-Token/embeddings"][found.ids], atol=1e-5)
    np.testing.assert_allclose(found.vectors[1], encoding(5, 16), atol=1e-6)
    np.testing.assert_allclose(found.normalised, found.vectors.sum(0), atol=1e-5)


def test_adapters_learn_in_it(model, ids):
    before = numpy(model([ids, ids * 0])[0])
    add_lora(model, rank=2)
    np.testing.assert_array_equal(numpy(model([ids, ids * 0])[0]), before)
    assert sum("lora" in variable.path for variable in model.trainable_variables) == 3 * 2 * 2


def test_its_onnx_export_gives_the_same_outputs(ids, rng):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    encoder = spread(build_model(CONFIG), rng)
    session = reference.ReferenceEvaluator(onnx_model(encoder))
    (answer,) = session.run(None, {session.input_names[0]: ids.astype("int64")})
    np.testing.assert_allclose(answer[ids != 0], numpy(encoder(ids))[ids != 0], atol=2e-5)


def test_a_task_on_it_is_saved_in_a_folder_of_its_own(tmp_path, rng):
    encoder = spread(build_model(CONFIG, ("pooler",)), rng)
    task = TextClassifier.from_encoder(encoder, TOKENIZER, labels=("x", "y"))
    task.save(tmp_path / "task")
    back = load_task(tmp_path / "task")
    texts = ["the cat sat", "red london"]
    assert (back.labels, back.max_len) == (("x", "y"), 40)
    for one, other in zip(back(texts), task(texts), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


@pytest.mark.slow
def test_it_is_pretrained_and_its_folder_is_read(tmp_path):
    model = {**CONFIG.to_dict(), "labels": (), "hidden_dropout_prob": 0.1}
    settings = {"steps": 2, "batch_size": 4, "seq_len": 16, "next_sentence": "none", "warmup_steps": 1, "tensorboard": False}
    trained = pretrain(small_corpus(), tmp_path / "run", model=model, **settings)
    back = from_pretrained(tmp_path / "run" / "model")
    assert isinstance(back.config, TransformerConfig)
    for path, value in values_of(trained).items():
        np.testing.assert_array_equal(values_of(back)[path], value)


def test_the_attention_page_shows_its_text(model):
    page = show_attention(model, TOKENIZER, "the cat sat")
    assert '"parts":["token","position"]' in page.html


def test_vectors_of_texts_are_cut_to_its_config(rng):
    encoder = spread(build_model(CONFIG.replace(max_position_embeddings=600)), rng)
    assert longest_row(encoder) == 600


@pytest.mark.slow
def test_it_is_fine_tuned_and_predicts(tmp_path, rng):
    save_pretrained(spread(build_model(CONFIG, ("pooler",)), rng), tmp_path / "encoder", "keras", vocabulary=VOCABULARY)
    finetune("classification", tmp_path / "encoder", PETS, PETS, tmp_path / "run", epochs=1, batch_size=4)
    (tmp_path / "rows.tsv").write_text("text\nthe cat sat\n")
    predict(tmp_path / "run" / "model", tmp_path / "rows.tsv", tmp_path / "answers.tsv")
    assert (tmp_path / "answers.tsv").read_text().count("\n") == 2
