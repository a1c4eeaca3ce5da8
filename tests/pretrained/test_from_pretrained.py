"""One function for every checkpoint: what it accepts, what it refuses, what it reports."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import tiny_families
from helpers.reference import weights_of
from helpers.small import answers, spread
from safetensors.numpy import load_file, save_file

from keras_bert_rebuild import BertConfig, build_model, from_pretrained, load_task, save_pretrained
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint, write_tensorflow_checkpoint
from keras_bert_rebuild.families import table_of
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import heads_of_class

GOLDEN = Path(__file__).parents[1] / "golden"
IDS = np.array([[2, 7, 9, 11, 3, 0, 0], [2, 5, 3, 0, 0, 0, 0]])


def same(a, b):
    for one, other in zip(a.weights, b.weights, strict=True):
        assert one.path == other.path
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))


@pytest.fixture
def folder(tmp_path):
    """A copy of a pretraining model, to be damaged."""
    shutil.copytree(GOLDEN / "bert_pretraining", tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    """Change the arrays of a folder with a function from a dictionary to another."""
    arrays = load_file(folder / "model.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in change(arrays).items()}, folder / "model.safetensors")


def reconfigure(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_all_heads_are_loaded_unless_some_are_chosen(folder):
    whole = from_pretrained(folder)
    assert whole.output_names == ["MLM", "NSP"]
    assert from_pretrained(folder, heads=["mlm"]).output_names == ["MLM"]
    encoder = from_pretrained(folder, heads=[])
    pooled = from_pretrained(folder, heads=["pooler"])
    np.testing.assert_array_equal(*(answers(model, IDS, IDS * 0)[0] for model in (encoder, pooled)))
    assert "cls.predictions.bias" in encoder.load_report.unused


def test_without_heads_several_blocks_can_be_outputs(folder):
    both = answers(from_pretrained(folder, output_layer_num=2), IDS, IDS * 0)[0]
    last = answers(from_pretrained(folder, heads=[]), IDS, IDS * 0)[0]
    assert both.shape == (2, 7, 24)
    np.testing.assert_allclose(both[..., 12:], last, atol=1e-6)
    with pytest.raises(ValueError, match="output_layer_num must be left out with heads"):
        from_pretrained(folder, heads=["mlm"], output_layer_num=2)


def test_the_report_prints_as_a_table(folder):
    report = from_pretrained(folder, heads=["mlm"], seq_len=9).load_report
    lines = str(report).splitlines()
    assert lines[0].endswith("42 loaded, 0 missing, 4 unused, 1 reshaped, 0 ignored")
    assert any(line.split() == ["reshaped", "Embedding-Position/embeddings", "(24,", "12)", "→", "(9,", "12)"] for line in lines)
    assert len(lines) == 1 + 42 + 4 + 1


def test_a_missing_head_is_refused_by_name(folder):
    rewrite(folder, lambda arrays: {k: v for k, v in arrays.items() if "seq_relationship" not in k})
    with pytest.raises(ValueError, match=r"NSP/kernel: cls.seq_relationship.weight is missing") as error:
        from_pretrained(folder, heads=["mlm", "nsp"])
    assert str(error.value).count("\n") == 2  # NSP/kernel and NSP/bias, nothing else
    with pytest.warns(UserWarning, match="2 of 46 variables are newly initialised: NSP/kernel, NSP/bias"):
        model = from_pretrained(folder, heads=["mlm", "nsp"], strict=False)
    assert [path for path, _ in model.load_report.missing] == ["NSP/kernel", "NSP/bias"]


def test_everything_that_is_wrong_is_listed_at_once_with_near_names(folder):
    def harm(arrays):
        arrays["bert.encoder.layer.0.attention.self.querry.weight"] = arrays.pop("bert.encoder.layer.0.attention.self.query.weight")
        arrays["bert.encoder.layer.1.output.dense.bias"] = np.zeros(5, "float32")
        arrays["bert.encoder.layer.1.crossattention.self.key.bias"] = np.zeros(5, "float32")
        arrays["bert.embeddings.LayerNorm.weight"] = np.zeros(12, "int64")
        return arrays

    rewrite(folder, harm)
    with pytest.raises(ValueError, match="does not fit the model") as error:
        from_pretrained(folder)
    for words in (
        "query.weight is missing; there is bert.encoder.layer.0.attention.self.querry.weight",
        "expected shape (12,); bert.encoder.layer.1.output.dense.bias has (5,)",
        "bert.encoder.layer.1.crossattention.self.key.bias: the model has no variable for it",
        "expected floats; bert.embeddings.LayerNorm.weight has int64",
    ):
        assert words in str(error.value)


def test_old_spellings_and_files_without_prefix_are_the_same(folder, tmp_path):
    whole = from_pretrained(folder)
    swap = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def respell(arrays):
        for new, old in swap.items():
            arrays = {name.replace(new, old): array for name, array in arrays.items()}
        return {name.removeprefix("bert."): array for name, array in arrays.items()}

    rewrite(folder, respell)
    same(whole, from_pretrained(folder))


def test_a_tied_matrix_may_be_in_the_file_and_must_agree(folder):
    def untie(arrays):
        return {**arrays, "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"] + share}

    share = 0
    rewrite(folder, untie)
    assert from_pretrained(folder).load_report.unused == []
    share = 1
    rewrite(folder, untie)
    with pytest.raises(ValueError, match=r"decoder.weight differs from bert.embeddings.word_embeddings.weight"):
        from_pretrained(folder)


def test_a_name_in_two_spellings_is_refused(folder):
    rewrite(folder, lambda arrays: {**arrays, "embeddings.LayerNorm.gamma": arrays["bert.embeddings.LayerNorm.weight"]})
    with pytest.raises(ValueError, match=r"bert.embeddings.LayerNorm.weight: the file has it twice"):
        from_pretrained(folder)


def test_positions_are_shortened_and_lengthened_only_as_asked(folder):
    table = load_file(folder / "model.safetensors")["bert.embeddings.position_embeddings.weight"]

    def rows(**options):
        model = from_pretrained(folder, heads=[], **options)
        return keras.ops.convert_to_numpy(model.get_layer("Embedding-Position").embeddings)

    np.testing.assert_array_equal(rows(seq_len=10), table[:10])
    np.testing.assert_array_equal(rows(), table)
    with pytest.raises(ValueError, match=r"the checkpoint has 24 positions, but seq_len=30 needs more: choose extend_positions"):
        rows(seq_len=30)
    np.testing.assert_array_equal(rows(seq_len=60, extend_positions="repeat"), np.concatenate([table, table, table[:12]]))
    longer = rows(seq_len=47, extend_positions="interpolate")
    np.testing.assert_allclose(longer[::2], table, atol=1e-6)
    np.testing.assert_allclose(longer[1], (table[0] + table[1]) / 2, atol=1e-6)
    np.testing.assert_allclose(rows(seq_len=100, extend_positions="hierarchical")[:24], table, atol=1e-5)
    with pytest.raises(ValueError, match="extend_positions must be one of"):
        rows(seq_len=100, extend_positions="stretch")


def test_longer_positions_retain_the_rows_before_the_first():
    model = from_pretrained(GOLDEN / "roberta", heads=[], seq_len=44, extend_positions="repeat")
    table = load_file(GOLDEN / "roberta" / "model.safetensors")["embeddings.position_embeddings.weight"]
    got = keras.ops.convert_to_numpy(model.get_layer("Embedding-Position").embeddings)
    np.testing.assert_array_equal(got, np.concatenate([table, table[2:]]))


def test_the_dtype_can_be_chosen_and_the_global_one_stays(folder):
    model = from_pretrained(folder, heads=[], dtype="mixed_bfloat16")
    assert model.get_layer("Encoder-1-FeedForward").compute_dtype == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    half = from_pretrained(folder, heads=[], dtype="float16")
    assert {weight.dtype for weight in half.weights} == {"float16"}


def test_bfloat16_files_are_read(folder):
    import ml_dtypes

    whole = from_pretrained(folder)
    rewrite(folder, lambda arrays: {k: v.astype(ml_dtypes.bfloat16) for k, v in arrays.items()})
    for one, other in zip(whole.weights, from_pretrained(folder).weights, strict=True):
        np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (one, other)), rtol=1e-2)


def test_layers_are_frozen_by_prefix(folder):
    model = from_pretrained(folder, trainable=["Encoder-2"])
    assert {weight.path.split("-")[1] for weight in model.trainable_weights} == {"2"}
    assert from_pretrained(folder, trainable=False).trainable_weights == []


def test_weights_that_are_not_finite_are_named_in_a_warning(folder):
    rewrite(folder, lambda arrays: {**arrays, "bert.pooler.dense.bias": np.full(12, np.nan, "float32")})
    with pytest.warns(UserWarning, match=r"bert.pooler.dense.bias has non-finite values"):
        from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "expected a model_type among bert, roberta"),
        ({"hidden_act": "geglu"}, "expected an activation among gelu, .*; got 'geglu'"),
        ({"is_decoder": True}, "describes another architecture: is_decoder must be False, got True"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be 'absolute'"),
        ({"num_hidden_layers": 3}, r"Encoder-3-FeedForward/output/bias: bert.encoder.layer.2.output.dense.bias is missing"),
        ({"num_hidden_layers": 1}, r"bert.encoder.layer.1.output.dense.weight: the model has no variable for it"),
        ({"hidden_size": 15}, r"expected shape \(40, 15\); bert.embeddings.word_embeddings.weight has \(40, 12\)"),
        ({"vocab_size": "many"}, "vocab_size must be a whole number"),
        ({"max_position_embeddings": 30}, r"expected 30 positions; .* has 24"),
        ({"id2label": {"x": "y"}}, "id2label must map numbers to names"),
        ({"id2label": None, "num_labels": "3"}, "num_labels must be a whole number of at least 0; got '3'"),
        ({"model_type": ["bert"]}, r"expected a model_type among .*; got \['bert'\]"),
    ],
)
def test_a_config_that_does_not_fit_is_one_clear_error(folder, changes, message):
    reconfigure(folder, **changes)
    with pytest.raises(ValueError, match=message):
        from_pretrained(folder)


def test_an_error_names_the_given_config(folder, tmp_path):
    values = json.loads((folder / "config.json").read_text())
    (tmp_path / "given.json").write_text(json.dumps({**values, "hidden_act": "geglu"}))
    with pytest.raises(ValueError, match=r"given\.json: expected an activation among"):
        from_pretrained(folder, config=tmp_path / "given.json")


def test_malformed_class_names_give_no_heads():
    assert heads_of_class({"architectures": ["BertForMaskedLM"]}) == ("mlm",)
    assert heads_of_class({"architectures": 3}) is None


def test_the_word_gelu_means_what_its_format_means(folder, tmp_path):
    reconfigure(folder, hidden_act="gelu")
    assert from_pretrained(folder).config.hidden_act == "gelu_erf"
    save_pretrained(from_pretrained(folder), tmp_path / "google", "google")
    assert json.loads((tmp_path / "google" / "bert_config.json").read_text())["hidden_act"] == "gelu_erf"
    np.testing.assert_array_equal(
        *(answers(from_pretrained(path), IDS, IDS * 0)[0] for path in (folder, tmp_path / "google")),
    )
    reconfigure(folder, hidden_act="gelu_new")
    save_pretrained(from_pretrained(folder), tmp_path / "tanh", "google")
    assert json.loads((tmp_path / "tanh" / "bert_config.json").read_text())["hidden_act"] == "gelu"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("bert-base-uncased", "google-bert/bert-base-uncased is not in the cache .*, and HF_HUB_OFFLINE forbids to download it"),
        ("bert-base-uncase", "no file or folder bert-base-uncase, and no short name of a model: did you mean bert-base-uncased"),
        ("/no/such/folder.ckpt", r"there is no file or folder /no/such/folder.ckpt, and no checkpoint /no/such/folder.ckpt.index"),
    ],
)
def test_the_error_for_a_missing_path_says_what_to_do(path, message):
    with pytest.raises(ValueError, match=message):
        from_pretrained(path)


def test_a_folder_of_another_kind_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"one \.keras or \.h5 file; .* has no files"):
        from_pretrained(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"one \.keras or \.h5 file; .* has notes\.txt"):
        from_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"notes\.txt must be a supported file"):
        from_pretrained(tmp_path / "notes.txt")


def test_our_models_are_loaded_whole(folder, tmp_path):
    model = from_pretrained(folder)
    save_pretrained(model, tmp_path / "keras", "keras")
    again = from_pretrained(tmp_path / "keras")
    same(model, again)
    assert again.config == model.config
    for options in ({"heads": ["mlm"]}, {"seq_len": 1}, {"dtype": "bfloat16"}, {"padding_mask": True}):
        with pytest.raises(ValueError, match=f"is a whole model, for which {next(iter(options))} cannot be chosen"):
            from_pretrained(tmp_path / "keras", **options)
    same(model, from_pretrained(tmp_path / "keras", heads=heads_of(model)))
    model.save(tmp_path / "legacy.h5")
    same(model, from_pretrained(tmp_path / "legacy.h5"))


def test_our_weight_files_need_a_config_and_the_heads(folder, tmp_path):
    model = from_pretrained(folder)
    model.save_weights(tmp_path / "model.weights.h5")
    same(model, from_pretrained(tmp_path / "model.weights.h5", config=model.config, heads=["mlm", "nsp"]))
    with pytest.raises(ValueError, match="; none exists, and no config was given"):
        from_pretrained(tmp_path / "model.weights.h5")


def test_a_kerashub_preset_is_recognised(folder, tmp_path):
    from_pretrained(folder).save_weights(tmp_path / "model.weights.h5")
    (tmp_path / "config.json").write_text('{"module": "keras_hub.src.models.bert.bert_backbone", "config": {"vocabulary_size": 9}}')
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match=r"is part of a KerasHub preset.*expected the checkpoint that it was converted from"):
        from_pretrained(tmp_path)


TABLE = "Embedding-Token/embeddings"


def decoder_of(module):
    """A tiny config of a family, and the name of its tied token table in the MLM head; None if the files have none."""
    old_head = {"legacy": True} if module.__name__.endswith("deberta_v2") else {}
    config = tiny_families.tiny_config(module, **old_head)
    rows = table_of(config).rows(2, ("mlm",)) if "mlm" in module.HUGGINGFACE.heads else []
    names = [row.name for row in rows if row.path == TABLE]
    return (config, names) if len(names) == 2 else None


TIED = [module for module in tiny_families.modules() if tiny_families.has_files(module) and decoder_of(module)]


@pytest.mark.parametrize("module", TIED, ids=tiny_families.name_of_module)
def test_an_encoder_is_loaded_from_a_file_with_its_table_under_the_name_of_the_decoder_alone(tmp_path, module, rng):
    config, (name, decoder) = decoder_of(module)
    model = spread(build_model(config, ["mlm"]), rng)
    save_pretrained(model, tmp_path / "model", vocabulary=tiny_families.VOCABULARY)
    rewrite(tmp_path / "model", lambda arrays: {decoder if other == name else other: array for other, array in arrays.items()})
    encoder = from_pretrained(tmp_path / "model", heads=[])
    np.testing.assert_array_equal(weights_of(encoder)[TABLE], weights_of(model)[TABLE])
    same(from_pretrained(tmp_path / "model"), model)
    assert decoder not in encoder.load_report.unused


def test_a_decoder_of_its_own_is_no_table_of_the_encoder(folder):
    table = "bert.embeddings.word_embeddings.weight"
    rewrite(folder, lambda arrays: {**arrays, "cls.predictions.decoder.weight": arrays[table] + 1})
    encoder = from_pretrained(folder, heads=[])
    np.testing.assert_array_equal(weights_of(encoder)[TABLE], load_file(folder / "model.safetensors")[table])
    assert "cls.predictions.decoder.weight" in encoder.load_report.unused


@pytest.mark.parametrize(
    ("prefix", "kind", "outputs"), [("", "classification", 3), ("", "classification", 1), ("cls/squad/", "question_answering", 2)]
)
def test_the_head_of_googles_fine_tuning_scripts_is_loaded(tmp_path, rng, prefix, kind, outputs):
    config = BertConfig(**{**tiny_families.SIZES, "labels": ()})
    model = spread(build_model(config, ["pooler"]), rng)
    save_pretrained(model, tmp_path / "bert", "google", vocabulary=tiny_families.VOCABULARY)
    source = TensorFlowCheckpoint(tmp_path / "bert")
    kernel, bias = rng.normal(size=(outputs, 16)).astype("float32"), rng.normal(size=outputs).astype("float32")
    arrays = {name: source.read(name) for name in source.names}
    arrays |= {f"{prefix}output_weights": kernel, f"{prefix}output_bias": bias, f"{prefix}output_weights/adam_m": kernel}
    write_tensorflow_checkpoint(tmp_path / "bert" / "bert_model.ckpt", sorted(arrays.items()))
    task = load_task(tmp_path / "bert")
    assert task.kind == kind
    layer = task.model.output_names[0]
    values = weights_of(task.model)
    np.testing.assert_array_equal(values[f"{layer}/kernel"], kernel.T)
    np.testing.assert_array_equal(values[f"{layer}/bias"], bias)
    assert not any("output" in name for name in task.model.load_report.unused)
    if kind == "classification":
        assert task.labels == tuple(f"LABEL_{i}" for i in range(outputs))
    save_pretrained(task.model, tmp_path / "again", "google", vocabulary=tiny_families.VOCABULARY)
    np.testing.assert_array_equal(TensorFlowCheckpoint(tmp_path / "again").read(f"{prefix}output_weights"), kernel)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_beside_weights_is_not_ignored(folder, name):
    (folder / name).write_text("{}")
    with pytest.raises(
        ValueError, match=rf"expected model\.safetensors alone; .*model has {name}, an adapter, which is not applied"
    ):
        from_pretrained(folder)
    assert from_pretrained(folder / "model.safetensors").output_names == ["MLM", "NSP"]
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=f"expected weights of a whole model alone; .*model has {name}, an adapter"):
        from_pretrained(folder)


POINTER = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "tf_model.h5", "bert_model.ckpt.index", "model.keras"])
def test_a_pointer_of_git_lfs_is_named_as_one(folder, name):
    (folder / "model.safetensors").unlink()
    (folder / name).write_text(f"{POINTER}size 12345\n")
    for path in (folder, folder / name):
        with pytest.raises(ValueError, match=rf"{name}; it is a git-lfs pointer to it: run git lfs pull there"):
            from_pretrained(path)


@pytest.mark.parametrize(
    ("changes", "heads", "message"),
    [
        ({"num_hidden_layers": 0}, [], "must describe encoder blocks, as no head is loaded; it has none"),
        ({"id2label": {}}, ["classification"], "must have labels for the head classification; it has none"),
    ],
)
def test_a_config_without_what_a_model_needs_is_one_sentence_with_its_file(folder, changes, heads, message):
    reconfigure(folder, **changes)
    with pytest.raises(ValueError, match=rf"the config of .*model\.safetensors {message}"):
        from_pretrained(folder, heads=heads)
