"""Nomic BERT and GTE: everything that the library does with a model of them."""

import json

import keras
import numpy as np
import pytest
from helpers import small_tokenizers
from helpers.reference import weights_of as values_of
from helpers.run_model import answers
from helpers.small import random_model

from keras_bert_rebuild import (
    TextClassifier,
    WordPieceTokenizer,
    add_lora,
    attention_maps,
    build_model,
    compile_model,
    explain,
    fill_mask,
    from_pretrained,
    load_task,
    load_tokenizer,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.families.gte import GteConfig
from keras_bert_rebuild.families.nomic_bert import NomicBertConfig
from keras_bert_rebuild.models.build_model import dtype_scope
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.training.distributed.distribution import axes_of

SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "labels": ("a", "b", "c"),
}
NOMIC = NomicBertConfig(**SMALL)
GTE = GteConfig(**SMALL, rope_factor=1.5)
HEADS = [(), ("mlm",), ("classification",), ("token_classification",), ("question_answering",), ("multiple_choice",)]

configs = pytest.mark.parametrize("config", [NOMIC, GTE, GTE.replace(type_vocab_size=0)], ids=["nomic", "gte", "segmentless"])
two_configs = pytest.mark.parametrize("config", [NOMIC, GTE], ids=["nomic", "gte"])


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 40, (2, 15)).astype("int32")
    ids[1, 9:] = 0
    return ids


@configs
@pytest.mark.parametrize("heads", HEADS, ids=lambda heads: "_".join(heads) or "encoder")
def test_every_weight_is_counted_named_and_saved_bit_by_bit(config, heads, rng, ids, tmp_path):
    model = random_model(config, heads, rng)
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == {
        path: shape for path, (_, shape) in weights_of(config.encoder(), heads).items()
    }
    assert config.num_params(heads) == model.count_params() == explain(model).total("params")
    assert sum(row.parameters for row in weight_names(config, heads)) == model.count_params()
    save_pretrained(model, tmp_path / "folder")
    back = from_pretrained(tmp_path / "folder")
    assert (back.load_report.missing, back.load_report.unused) == ([], [])
    assert back.config == (config.replace(labels=back.config.labels) if "question_answering" in heads else config)
    for path, value in values_of(model).items():
        np.testing.assert_array_equal(values_of(back)[path], value, err_msg=path)
    for one, two in zip(answers(model, ids, ids * 0), answers(back, ids, ids * 0), strict=True):
        np.testing.assert_array_equal(one, two)


def test_only_the_output_of_gtes_feed_forward_half_has_a_bias():
    def biases(config):
        return [path for path in weights_of(config.encoder(), ()) if path.startswith("Encoder-1") and path.endswith("/bias")]

    attention = [f"Encoder-1-MultiHeadSelfAttention/{name}/bias" for name in ("query", "key", "value", "output")]
    assert biases(NOMIC) == []
    assert biases(GTE) == [*attention, "Encoder-1-FeedForward/output/bias"]


@two_configs
def test_padding_changes_no_answer(config, rng, ids):
    for heads in HEADS:
        model = random_model(config, heads, rng)
        (padded,), (alone,) = answers(model, ids, ids * 0), answers(model, ids[1:, :9], ids[1:, :9] * 0)
        np.testing.assert_allclose(padded[1] if padded.ndim == 2 else padded[1, :9], alone[0], atol=2e-5)


@two_configs
def test_it_is_explained_planned_sharded_and_drawn(config):
    explanation = explain(config, ("mlm", "classification"))
    assert "Position embedding" not in [step.name for step in explanation.steps]
    assert "rotated by position" in plot_model(config, ("mlm",), block=True).to_svg()
    assert forward_flops(config, Work(10, 100, 2, 1), pair_head=False) == (
        2 * (2 * 10 * (4 * 16 * 16 + 3 * 16 * 12) + 4 * 100 * 16) + 2 * 2 * (16 * 16 + 16 * 40)
    )
    assert step_memory(config, PretrainSettings(batch_size=2, seq_len=16, max_predictions=2), "gpu", 2).activations > 0
    assert axes_of("Encoder-2-FeedForward/gate/kernel", (16, 12), 4) == (None, "model")


@two_configs
def test_maps_sum_to_1_and_adapters_start_without_effect(config, rng, ids):
    model = random_model(config, ("classification",), rng)
    maps = attention_maps(model, [ids, ids * 0])
    np.testing.assert_allclose(maps.probabilities[1][:1].sum(-1), 1, atol=1e-5)
    (before,) = answers(model, ids, ids * 0)
    add_lora(model, rank=2)
    np.testing.assert_array_equal(answers(model, ids, ids * 0)[0], before)
    assert sum("lora" in variable.path for variable in model.trainable_variables) == 2 * 2 * 2


@two_configs
def test_rematerialisation_changes_no_number(config, rng, ids):
    model = random_model(config, ("mlm", "classification"), rng)
    start, ends = model.get_weights(), []
    for remat in (False, True):
        model.set_weights(start)
        compile_model(model, optimizer=keras.optimizers.SGD(0.1), remat=remat, jit_compile=False)
        model.train_on_batch([ids, ids * 0, np.eye(2, 15, dtype="int32")], {"MLM": ids, "Classification": np.array([0, 2])})
        ends.append(model.get_weights())
    for plain, again in zip(*ends, strict=True):
        np.testing.assert_allclose(again, plain, atol=1e-5)
    assert max(np.abs(plain - before).max() for before, plain in zip(start, ends[0], strict=True)) > 0


def test_rates_drop_where_the_families_drop():
    plain = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
    for config, inner in ((NOMIC, 0.0), (GTE, 0.3)):
        model = build_model(config.replace(**plain), ())
        rows = [layer.name for layer in model.layers]
        assert rows.index("Embedding-Dropout") > rows.index("Embedding-Norm")
        assert {"Encoder-1-MultiHeadSelfAttention-Dropout", "Encoder-1-FeedForward-Dropout"} <= set(rows)
        assert model.get_layer("Encoder-1-FeedForward").dropout_rate == inner


@two_configs
def test_bfloat16_is_near_float32_and_a_keras_file_restores_the_model(config, rng, ids, tmp_path):
    model = random_model(config, ("token_classification",), rng)
    with dtype_scope("mixed_bfloat16"):
        half = build_model(config, ("token_classification",))
    half.set_weights(model.get_weights())
    (expected,), (got,) = answers(model, ids, ids * 0), answers(half, ids, ids * 0)
    assert np.abs(got - expected)[ids != 0].max() < 0.05 * np.abs(expected).max()
    model.save(tmp_path / "model.keras")
    back = keras.saving.load_model(tmp_path / "model.keras")
    assert back.config == model.config
    np.testing.assert_array_equal(answers(back, ids, ids * 0)[0], expected)


@configs
def test_its_onnx_export_gives_the_same_outputs(config, rng, ids):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    for heads in HEADS:
        model = random_model(config, heads, rng)
        session = reference.ReferenceEvaluator(onnx_model(model))
        fed = dict(zip(session.input_names, (ids.astype("int64"), ids.astype("int64") * 0), strict=False))
        (answer,) = session.run(None, fed)
        (expected,) = answers(model, ids, ids * 0)
        real = (ids != 0) if expected.shape[:2] == ids.shape else slice(None)
        np.testing.assert_allclose(answer[real], expected[real], atol=2e-5)


def test_a_file_without_packed_projections_is_read(rng, ids, tmp_path):
    from safetensors.numpy import load_file, save_file

    model = random_model(GTE, ("mlm",), rng)
    save_pretrained(model, tmp_path)
    arrays = {}
    for name, array in load_file(tmp_path / "model.safetensors").items():
        head, packed, rest = name.partition("attention.qkv_proj")
        if packed:
            arrays |= {f"{head}attention.{part}_proj{rest}": third for part, third in zip("qkv", np.split(array, 3), strict=True)}
        else:
            arrays[name.replace("gte.", "new.")] = array
    save_file(
        {name.replace("gte.", "new."): np.ascontiguousarray(array) for name, array in arrays.items()},
        tmp_path / "model.safetensors",
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pack_qkv": False}))
    back = from_pretrained(tmp_path)
    assert not back.load_report.unused
    np.testing.assert_array_equal(answers(back, ids, ids * 0)[0], answers(model, ids, ids * 0)[0])


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "##s", "a"]


@pytest.mark.parametrize("kind", [WordPieceTokenizer, SentencePieceTokenizer])
def test_a_folder_with_its_tokenizer_fills_masks_shows_attention_and_classifies(kind, rng, tmp_path):
    config, tokenizer, mask = NOMIC, WordPieceTokenizer({word: i for i, word in enumerate(PIECES)}), "[MASK]"
    if kind is SentencePieceTokenizer:
        config = GTE.replace(vocab_size=170, pad_token_id=1)
        tokenizer, mask = SentencePieceTokenizer(small_tokenizers.sentencepiece("xlm_roberta"), "xlm_roberta"), "<mask>"
    save_pretrained(random_model(config, ("mlm",), rng), tmp_path / "folder", vocabulary=tokenizer)
    path = tmp_path / "folder" / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["tokenizer_class"]  # then the model_type decides, as in transformers
    path.write_text(json.dumps(settings))
    model, back = from_pretrained(tmp_path / "folder", padding_mask=True), load_tokenizer(tmp_path / "folder")
    assert isinstance(back, kind)
    assert len(fill_mask(model, back, f"the {mask} cat", top_k=3)[0]) == 3
    assert embedding_anatomy(model, back, "the cat").parts == ("token", "segment")
    assert "the cat" in show_attention(model, back, "the cat", name="the cat").html
    task = TextClassifier.from_encoder(tmp_path / "folder", labels=["cat", "dog"])
    task.save(tmp_path / "task")
    assert load_task(tmp_path / "task")(["the cat"]) == task(["the cat"])
