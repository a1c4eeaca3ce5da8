"""ModernBERT: its config in two spellings, its heads, its tokenizer, and everything else that the library does with a model."""

import json
import math

import keras
import numpy as np
import pytest
from helpers.reference import weights_of as values_of
from helpers.small import random_model
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from keras_bert_rebuild import (
    BertConfig,
    MultipleChoice,
    attention_maps,
    build_model,
    compile_model,
    explain,
    fill_mask,
    from_pretrained,
    load_tokenizer,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.data.labelled.labelled_examples import ChoiceQuestion
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data
from keras_bert_rebuild.families.modernbert import ModernBertConfig
from keras_bert_rebuild.kernels import bands
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import config_from_huggingface, config_to_huggingface
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Work, forward_flops, step_memory
from keras_bert_rebuild.tasks.model_of_task import model_with_head
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer

CONFIG = ModernBertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=48,
    pad_token_id=0,
    local_attention=6,
    labels=("a", "b", "c"),
)
BIASED = CONFIG.replace(
    norm_bias=True,
    attention_bias=True,
    mlp_bias=True,
    classifier_bias=True,
    decoder_bias=False,
    classifier_pooling="mean",
    hidden_act="silu",
    mlm_act="relu",
)
configs = pytest.mark.parametrize("config", [CONFIG, BIASED], ids=["plain", "biased"])


@pytest.fixture
def ids(rng):
    ids = rng.integers(1, 40, (2, 15)).astype("int32")
    ids[1, 9:] = 0
    return ids


def arrays(outputs):
    return [keras.ops.convert_to_numpy(each) for each in (outputs if isinstance(outputs, list) else [outputs])]


def answers(model, ids):
    given = {"Input-Token": ids, "Input-Masked": np.ones_like(ids)}
    inputs = [given[tensor.name] for tensor in model.inputs]
    return arrays(model(inputs if len(inputs) > 1 else inputs[0], training=False))


OLD = {
    "model_type": "modernbert",
    "num_hidden_layers": 6,
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 80000,
    "local_rope_theta": 500.5,
}
NEW = {
    "model_type": "modernbert",
    "num_hidden_layers": 6,
    "layer_types": ["full_attention", "sliding_attention"] * 3,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 80000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.5},
    },
}


def test_both_spellings_of_the_config_mean_the_same():
    config = config_from_huggingface(OLD)
    assert config == config_from_huggingface(NEW)
    assert [(block.attention.window, block.attention.rotary.theta) for block in config.encoder().blocks] == [
        (None, 80000.0),
        (64, 500.5),
    ] * 3
    written = config_to_huggingface(config, ("mlm",))
    for spelling in (OLD, NEW):
        assert {key: written[key] for key in spelling} == spelling


def test_layers_without_a_period_are_preserved():
    types = ["sliding_attention", "full_attention", "full_attention"]
    config = config_from_huggingface({"model_type": "modernbert", "num_hidden_layers": 3, "layer_types": types})
    assert config.layer_types == config.types_of_layers == tuple(types)
    assert config_to_huggingface(config)["layer_types"] == types
    assert config_from_huggingface(config_to_huggingface(config)) == config
    everywhere = {"model_type": "modernbert", "num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}
    assert config_from_huggingface(everywhere).global_attn_every_n_layers == 1


def test_a_file_of_another_theta_alone_changes_nothing_else():
    config = config_from_huggingface({"model_type": "modernbert", "rope_parameters": {"sliding_attention": {"rope_theta": 7.0}}})
    assert config == ModernBertConfig(local_rope_theta=7.0, labels=config.labels)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}}, "rope_type 'default'"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 10.0}}, "rope_parameters must have full_attention and"),
        ({"rope_parameters": {"full_attention": 3}}, "must be an object"),
        ({"local_rope_theta": None, "global_rope_theta": 5.0}, "local_rope_theta must be a number"),
        ({"local_rope_theta": "10"}, "local_rope_theta must be a number"),
        ({"layer_types": ["full_attention"]}, "layer_types must be 22 of full_attention, sliding_attention"),
        ({"layer_types": ["chunked_attention"] * 22}, "layer_types must be 22 of full_attention, sliding_attention"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers must be a whole number of at least 1"),
        ({"local_attention": -1}, "local_attention must be a whole number of at least 1"),
        ({"classifier_pooling": "max"}, "classifier_pooling must be 'cls' or 'mean'"),
        ({"norm_bias": "no"}, "norm_bias must be True or False"),
        ({"mlp_dropout": 1}, "mlp_dropout must be a rate"),
        ({"head_dim": 32}, "head_dim must be hidden_size / num_attention_heads"),
        ({"hidden_size": 12, "num_attention_heads": 4}, "the width of a head must be even"),
        ({"hidden_activation": "gelu_of_tomorrow"}, "expected an activation"),
        ({"classifier_activation": {"class_name": "x"}}, "mlm_act must be the name of an activation"),
    ],
)
def test_settings_that_are_not_implemented_are_refused_in_one_sentence(values, said):
    with pytest.raises(ValueError, match=said) as error:
        config_from_huggingface({"model_type": "modernbert", **values})
    assert "\n" not in str(error.value)


def test_a_config_of_bert_is_not_one_of_modernbert():
    with pytest.raises(ValueError, match="a config of the family modernbert must be a ModernBertConfig; got a BertConfig"):
        BertConfig(family="modernbert")
    assert BertConfig.from_dict({"family": "modernbert"}) == ModernBertConfig()


@configs
@pytest.mark.parametrize("heads", [("mlm",), ("classification",)], ids="_".join)
def test_a_folder_that_names_no_class_has_one_head(config, heads, rng, tmp_path):
    save_pretrained(random_model(config, heads, rng), tmp_path / "folder")
    path = tmp_path / "folder" / "config.json"
    values = json.loads(path.read_text())
    del values["architectures"]
    path.write_text(json.dumps(values))
    # The heads with a classifier have the same names.
    assert heads_of(from_pretrained(tmp_path / "folder")) == heads


def test_multiple_choice_reads_the_first_token_after_padding_on_the_left(rng, ids, tmp_path):
    model = random_model(CONFIG, ("multiple_choice",), rng)
    turned = np.stack([np.concatenate([row[row == 0], row[row != 0]]) for row in ids])
    np.testing.assert_allclose(answers(model, turned)[0], answers(model, ids)[0], atol=1e-5)
    model.save(tmp_path / "model.keras")
    back = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(answers(back, turned)[0], answers(model, turned)[0])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_bands_change_no_answer_and_no_step(pooling, rng, ids, monkeypatch):
    config = CONFIG.replace(classifier_pooling=pooling)
    weights, labels = random_model(config, ("classification",), rng).get_weights(), np.array([0, 2])
    found = []
    for windows in (bands.WINDOWS, 0):
        monkeypatch.setattr(bands, "WINDOWS", windows)
        model = build_model(config, ("classification",))
        model.set_weights(weights)
        compile_model(model, optimizer=keras.optimizers.SGD(0.1), jit_compile=False)
        given = np.concatenate([ids, ids[:, ::-1]])  # padding after the tokens and before them
        before = answers(model, given)
        model.train_on_batch(given, np.concatenate([labels, labels]))
        found.append([*before, attention_maps(model, given[:1]).probabilities, *model.get_weights()])
    for plain, in_bands in zip(*found, strict=True):
        np.testing.assert_allclose(in_bands, plain, atol=1e-5)


def test_long_texts_cost_what_their_windows_do():
    config = ModernBertConfig()
    short, long = (explain(config, ("mlm",), length=length, predictions=1) for length in (4096, 8192))
    retained = {step.name: long_step.kept / step.kept for step, long_step in zip(short.steps, long.steps, strict=True) if step.kept}
    assert retained["Windowed attention"] == 2
    assert retained["Attention"] > 3.5
    assert "V = 192  keys per query in windowed attention" in str(long)
    for explained, length in ((short, 4096), (long, 8192)):
        assert explained.total("forward") == forward_flops(config, Work(length, length**2, 1, 1), pair_head=False)
    memory = [
        step_memory(config, PretrainSettings(batch_size=1, seq_len=length, max_predictions=1), "cpu", 1).activations
        for length in (4096, 8192)
    ]
    every = config.replace(global_attn_every_n_layers=1)
    whole = step_memory(every, PretrainSettings(batch_size=1, seq_len=8192, max_predictions=1), "cpu", 1).activations
    assert memory[1] < 0.5 * whole
    assert "Encoder block × 22" in str(short)


def test_maps_end_at_the_window(rng, ids):
    shown = attention_maps(random_model(CONFIG, ("mlm",), rng), ids[:1]).probabilities
    far = np.abs(np.arange(15)[:, None] - np.arange(15)) > 3
    for layer, kind in enumerate(CONFIG.types_of_layers):
        assert (shown[layer][..., far].max() == 0) == (kind == "sliding_attention")
    np.testing.assert_allclose(shown.sum(-1), 1, atol=1e-5)


def test_a_task_starts_from_the_transform_of_the_mlm_head(rng):
    pretrained = random_model(BIASED, ("mlm",), rng)
    values = values_of(pretrained)
    tagger = model_with_head(pretrained, ["token_classification"], ["a", "b"])
    for path in ("MLM-Dense/kernel", "MLM-Dense/bias", "MLM-Norm/gamma", "MLM-Norm/beta"):
        np.testing.assert_array_equal(values_of(tagger)[path], values[path])
    assert {path for path, _ in tagger.load_report.missing} == {"Token-Classification/kernel", "Token-Classification/bias"}
    bare = model_with_head(random_model(BIASED, (), rng), ["classification"], ["a", "b"])
    np.testing.assert_array_equal(values_of(bare)["MLM-Norm/gamma"], 1)
    assert 0 < np.abs(values_of(bare)["MLM-Dense/kernel"]).max() < 0.2


def test_output_projections_start_from_smaller_values_in_deeper_models(tmp_path):
    config = CONFIG.replace(hidden_size=64, intermediate_size=64)
    model = build_model(config, ("mlm",))
    model.save(tmp_path / "model.keras")
    for path, value in values_of(model).items():
        if path.endswith(("kernel", "embeddings")):
            outputs = path.endswith("output/kernel") or path.startswith("MLM-Dense")
            deviation = 0.02 / 8**0.5 if outputs else 0.02
            assert 0.8 * deviation < value.std() < 0.95 * deviation, path  # a normal distribution cut at two deviations
            assert np.abs(value).max() <= 2.0001 * deviation
    back = keras.saving.load_model(tmp_path / "model.keras")
    assert back.get_layer("Encoder-2-FeedForward").output_initializer.stddev == pytest.approx(0.02 / 8**0.5)
    assert back.get_layer("Encoder-2-FeedForward").kernel_initializer.stddev == 0.02


def test_rates_drop_in_training_only(rng, ids):
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.4, "mlp_dropout": 0.3, "classifier_dropout": 0.2}
    plain, dropped = (
        random_model(config, ("classification",), np.random.default_rng(3)) for config in (CONFIG, CONFIG.replace(**rates))
    )
    np.testing.assert_allclose(answers(dropped, ids)[0], answers(plain, ids)[0], atol=1e-6)
    rows = [layer.name for layer in dropped.layers]
    assert rows.index("Embedding-Dropout") > rows.index("Embedding-Norm")
    assert "Encoder-1-MultiHeadSelfAttention-Dropout" in rows
    assert "Encoder-1-FeedForward-Dropout" not in rows
    assert dropped.get_layer("Encoder-1-FeedForward").dropout_rate == 0.3
    assert np.abs(arrays(dropped(ids, training=True))[0] - answers(plain, ids)[0]).max() > 1e-3


def byte_level_pipeline():
    """A tokenizer.json as ModernBERT's: bytes, NFC, no space before the text, and a mask that takes the space before it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("c", "a"), ("ca", "t"), ("Ġ", "cat")]
    vocabulary = {piece: i for i, piece in enumerate(["|||IP|||", *letters, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True)])
    special = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special)
    return tokenizer


@pytest.fixture
def folder(tmp_path, rng):
    peer = byte_level_pipeline()
    size = peer.get_vocab_size()
    config = CONFIG.replace(vocab_size=math.ceil(size / 8) * 8, pad_token_id=peer.token_to_id("[PAD]"))
    save_pretrained(random_model(config, ("mlm",), rng), tmp_path / "folder")
    peer.save(str(tmp_path / "folder" / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "[MASK]", "model_max_length": 48}
    (tmp_path / "folder" / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path / "folder"


def test_its_tokenizer_gives_the_rows_of_the_package(folder):
    tokenizer, peer = load_tokenizer(folder), byte_level_pipeline()
    assert isinstance(tokenizer, PipelineTokenizer)
    assert (tokenizer.pad_id, tokenizer.mask_id) == (peer.token_to_id("[PAD]"), peer.token_to_id("[MASK]"))
    texts, pairs = ["the cat", "Cafe\u0301 the", "", "x\n y"], ["the the", "", "ß cat", "cat"]
    encoding = tokenizer.encode_batch(texts, pairs, return_offsets=True)
    expected = [peer.encode(*pair) for pair in zip(texts, pairs, strict=True)]
    assert [row.tolist() for row in encoding.ids] == [row.ids for row in expected]
    assert [[*map(tuple, row.tolist())] for row in encoding.offsets] == [row.offsets for row in expected]


def test_its_attention_page_shows_windows_and_embeddings_without_positions(folder):
    model, tokenizer = from_pretrained(folder), load_tokenizer(folder)
    anatomy = embedding_anatomy(model, tokenizer, "the cat the cat")
    assert anatomy.parts == ("token",)
    np.testing.assert_array_equal(anatomy.summed, anatomy.vectors[0])
    np.testing.assert_array_equal(anatomy.positions, np.arange(len(anatomy.tokens)))
    text = "the cat the cat"
    assert "modern" in show_attention(model, tokenizer, text, name="modern").html
    maps = attention_maps(model, texts=[text], tokenizer=tokenizer, vectors=True).of_text(0)
    assert page_data(PageContents([PageSource(maps)]))["sources"][0]["windows"] == [None, 3, 3, None]


def test_a_folder_fills_masks_and_keeps_its_tokenizer(folder, tmp_path):
    model = from_pretrained(folder)
    found = fill_mask(model, load_tokenizer(folder), "the [MASK] cat", top_k=3)
    assert len(found) == 1
    assert len(found[0]) == 3
    save_pretrained(model, tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").encode_batch(["the cat"]).ids[0].tolist() == [
        *load_tokenizer(folder).encode_batch(["the cat"]).ids[0].tolist()
    ]


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_are_padded_on_the_right_whatever_a_folder_says(side, folder):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": side}))
    tokenizer = load_tokenizer(folder)
    rows = tokenizer.encode_batch(["the cat", "the"], pad_to="longest").ids
    assert rows[1, 0] != tokenizer.pad_id
    assert rows[1, -1] == tokenizer.pad_id
    task = MultipleChoice.from_encoder(folder)
    inputs, _ = task.batches(task.encode([ChoiceQuestion("the", ("cat", "the cat the cat"), 0)]), batch_size=1)[0]
    (ids,) = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    assert (ids[:, 0] != tokenizer.pad_id).all()
    assert ids[0, -1] == tokenizer.pad_id
