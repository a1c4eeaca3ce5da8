"""Models saved in other formats: the same bytes, whole folders or none."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import small_model
from safetensors.numpy import load_file

import keras_bert_rebuild as kb
from keras_bert_rebuild import BertConfig, BertModel, from_pretrained, save_pretrained
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import TensorFlowCheckpoint
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.heads import heads_of

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/golden.npz"))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "all", "work", "and", "no", "Play"]


def arrays(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_a_hugging_face_round_trip_preserves_names_types_and_bytes(case, tmp_path):
    save_pretrained(from_pretrained(GOLDEN / case), tmp_path / "back")
    before, after = arrays(GOLDEN / case), arrays(tmp_path / "back")
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert (array.dtype, array.tobytes()) == (after[name].dtype, after[name].tobytes()), name


@pytest.mark.parametrize("case", CASES)
def test_the_config_round_trips_unchanged(case, tmp_path):
    model = from_pretrained(GOLDEN / case)
    save_pretrained(model, tmp_path / "back")
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (GOLDEN / case, tmp_path / "back"))
    assert from_pretrained(tmp_path / "back").config == model.config
    assert after["architectures"] == before["architectures"]
    known = {key: before[key] for key in after if key in before}
    assert {key: after[key] for key in known} == known


def test_conversions_through_all_formats_change_nothing(tmp_path):
    source = GOLDEN / "bert_pretraining"
    for format in ("google", "keras", "google", "huggingface"):
        save_pretrained(from_pretrained(source), tmp_path / format, format)
        source = tmp_path / format
    before, after = arrays(GOLDEN / "bert_pretraining"), arrays(source)
    assert {k: v.tobytes() for k, v in before.items()} == {k: v.tobytes() for k, v in after.items()}
    google = TensorFlowCheckpoint(tmp_path / "google")
    assert "cls/seq_relationship/output_weights" in google.names
    np.testing.assert_array_equal(google.read("cls/seq_relationship/output_weights"), before["cls.seq_relationship.weight"])


@pytest.mark.backend("tensorflow")
def test_tensorflow_reads_what_is_written_for_google(tmp_path):
    import tensorflow as tf

    save_pretrained(from_pretrained(GOLDEN / "bert_pretraining"), tmp_path / "google", "google")
    reader = tf.train.load_checkpoint(str(tmp_path / "google" / "bert_model.ckpt"))
    ours = TensorFlowCheckpoint(tmp_path / "google")
    assert sorted(reader.get_variable_to_shape_map()) == ours.names
    for name in ours.names:
        np.testing.assert_array_equal(reader.get_tensor(name), ours.read(name))


@pytest.mark.backend("tensorflow")
def test_a_google_round_trip_preserves_names_types_and_bytes(tmp_path):
    """From a checkpoint that TensorFlow wrote, with optimizer slots, read again by TensorFlow."""
    import tensorflow as tf

    save_pretrained(from_pretrained(GOLDEN / "bert_pretraining"), tmp_path / "google", "google")
    source = TensorFlowCheckpoint(tmp_path / "google")
    given = {name: source.read(name) for name in source.names}
    slots = {f"{name}/adam_{slot}": array * 0 for name, array in given.items() for slot in "mv"}
    names, values = zip(*{**given, **slots, "global_step": np.int64(3)}.items(), strict=True)
    folder = tmp_path / "tf"
    folder.mkdir()
    shutil.copy(tmp_path / "google" / "bert_config.json", folder)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )
    model = from_pretrained(folder / "bert_model.ckpt.index")
    assert sorted(model.load_report.ignored) == sorted([*slots, "global_step"])
    save_pretrained(model, tmp_path / "back", "google")
    reader = tf.train.load_checkpoint(str(tmp_path / "back" / "bert_model.ckpt"))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(given)
    for name, array in given.items():
        got = reader.get_tensor(name)
        assert (got.dtype, got.tobytes()) == (array.dtype, array.tobytes())


@pytest.mark.backend("tensorflow")
def test_checkpoints_of_the_model_garden_are_read(tmp_path):
    """Objects with the names and shapes of its encoder, saved by TensorFlow."""
    import tensorflow as tf

    model = from_pretrained(GOLDEN / "bert_pretraining", heads=["pooler"])
    value = {w.path: tf.constant(keras.ops.convert_to_numpy(w)) for w in model.weights}

    def holder(**attributes):
        made = tf.Module()
        for name, content in attributes.items():
            setattr(made, name, tf.Variable(content) if isinstance(content, tf.Tensor) else content)
        return made

    def dense(path, shape=None):
        kernel, bias = value[f"{path}/kernel"], value[f"{path}/bias"]
        if shape is not None:
            kernel, bias = tf.reshape(kernel, shape), tf.reshape(bias, shape[1:] if shape[0] == 12 else [12])
        return holder(kernel=kernel, bias=bias)

    def norm(path):
        return holder(gamma=value[f"{path}/gamma"], beta=value[f"{path}/beta"])

    def table(name):
        return holder(embeddings=value[f"Embedding-{name}/embeddings"])

    layers = [table("Token"), table("Position"), table("Segment"), norm("Embedding-Norm")]
    for i in (1, 2):
        attention, feed = f"Encoder-{i}-MultiHeadSelfAttention", f"Encoder-{i}-FeedForward"
        parts = {f"_{name}_dense": dense(f"{attention}/{name}", [12, 3, 4]) for name in ("query", "key", "value")}
        parts["_output_dense"] = dense(f"{attention}/output", [3, 4, 12])
        layers.append(
            holder(
                _attention_layer=holder(**parts),
                _attention_layer_norm=norm(f"{attention}-Norm"),
                _intermediate_dense=dense(f"{feed}/intermediate"),
                _output_dense=dense(f"{feed}/output"),
                _output_layer_norm=norm(f"{feed}-Norm"),
            )
        )
    layers.append(dense("NSP-Dense"))
    encoder = holder(**{f"layer_with_weights-{i}": layer for i, layer in enumerate(layers)})
    save_pretrained(model, tmp_path / "garden", "google")
    for file in (tmp_path / "garden").glob("bert_model*"):
        file.unlink()
    tf.train.Checkpoint(encoder=encoder).write(str(tmp_path / "garden" / "bert_model.ckpt"))
    again = from_pretrained(tmp_path / "garden")
    assert again.load_report.source.endswith("(Model Garden, bert_model.ckpt)")
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))


def test_large_models_are_written_in_shards_with_an_index(tmp_path):
    model = from_pretrained(GOLDEN / "bert_pretraining")
    save_pretrained(model, tmp_path / "shards", max_shard_bytes=4000)
    files = sorted(file.name for file in (tmp_path / "shards").glob("*.safetensors"))
    assert len(files) > 3
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    again = from_pretrained(tmp_path / "shards")
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))


def test_one_file_replaces_shards_and_shards_one_file(tmp_path):
    model = from_pretrained(GOLDEN / "bert_pretraining")
    save_pretrained(model, tmp_path / "x")
    save_pretrained(model, tmp_path / "x", max_shard_bytes=4000)
    assert not (tmp_path / "x" / "model.safetensors").exists()
    save_pretrained(model, tmp_path / "x")
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["README.md", "config.json", "model.safetensors"]


@pytest.mark.parametrize("format", ["huggingface", "keras"])
def test_files_of_the_old_tokenizer_are_removed(tmp_path, format):
    model = from_pretrained(GOLDEN / "bert")
    tmp_path.joinpath("tokenizer.json").write_text("{}")
    tmp_path.joinpath("notes.txt").write_text("mine")
    model.load_report.tokenizer_files = {}
    save_pretrained(model, tmp_path, format)
    assert (tmp_path / "tokenizer.json").exists()
    save_pretrained(model, tmp_path, format, vocabulary=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    assert not (tmp_path / "tokenizer.json").exists()
    assert (tmp_path / "notes.txt").exists()


def test_half_precision_is_written_on_request(tmp_path):
    save_pretrained(from_pretrained(GOLDEN / "bert"), tmp_path / "half", dtype="float16")
    assert {array.dtype.name for array in arrays(tmp_path / "half").values()} == {"float16"}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "float16"


def test_a_model_of_get_model_is_written_with_a_vocabulary(tmp_path):
    model = small_model()
    save_pretrained(model, tmp_path / "google", "google", vocabulary=WORDS)
    assert (tmp_path / "google" / "vocab.txt").read_text().split("\n")[:-1] == WORDS
    settings = small_settings(tmp_path, model, {word: i for i, word in enumerate(WORDS)})
    assert settings["do_lower_case"] is False
    assert small_settings(tmp_path, model, [word.lower() if word == "Play" else word for word in WORDS])["do_lower_case"] is True
    again = kb.load_trained_model_from_checkpoint(
        tmp_path / "google" / "bert_config.json", tmp_path / "google" / "bert_model.ckpt", training=True
    )
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))


def small_settings(tmp_path, model, vocabulary):
    save_pretrained(model, tmp_path / "hf", vocabulary=vocabulary)
    return json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())


def test_what_a_format_cannot_express_is_refused(tmp_path):
    roberta = from_pretrained(GOLDEN / "roberta_masked_lm")
    with pytest.raises(ValueError, match="Google's format has no names for the family roberta"):
        save_pretrained(roberta, tmp_path / "x", "google")
    with pytest.raises(ValueError, match=r"bert_config.json cannot represent layer_norm_eps=1e-05"):
        save_pretrained(from_pretrained(GOLDEN / "bert_odd"), tmp_path / "x", "google")
    with pytest.raises(ValueError, match="cannot represent num_tasks=10"):
        save_pretrained(small_model(use_task_embed=True), tmp_path / "x")
    with pytest.raises(ValueError, match=r"cannot represent attention_act='relu'"):
        save_pretrained(small_model(attention_activation="relu"), tmp_path / "x")
    with pytest.raises(ValueError, match="format must be one of huggingface, google, keras; got 'onnx'"):
        save_pretrained(roberta, tmp_path / "x", "onnx")
    mixed = build_model(roberta.config.replace(labels=("a", "b")), ["mlm", "classification"])
    with pytest.raises(ValueError, match="expected the heads of one Hugging Face class"):
        save_pretrained(mixed, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_hand_built_model_needs_its_config_and_its_extra_layers_have_no_name(tmp_path):
    model = from_pretrained(GOLDEN / "bert")
    by_hand = BertModel(model.inputs, model.outputs[0])
    with pytest.raises(ValueError, match="config must be the BertConfig of a model assembled by hand"):
        save_pretrained(by_hand, tmp_path / "x")
    save_pretrained(by_hand, tmp_path / "x", config=model.config)
    assert len(arrays(tmp_path / "x")) == len(arrays(GOLDEN / "bert")) - 2  # all except the pooler
    own = BertModel(model.inputs, keras.layers.Dense(3, name="own")(model.outputs[1]))
    with pytest.raises(ValueError, match=r"no name for:\n  own/kernel\n  own/bias"):
        save_pretrained(own, tmp_path / "y", config=model.config)


def test_nothing_half_written_remains(tmp_path, monkeypatch):
    model = from_pretrained(GOLDEN / "bert")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"expected a folder to write to; .*file is a file"):
        save_pretrained(model, tmp_path / "file")

    def full(self, content):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save_pretrained(model, tmp_path / "new", vocabulary=WORDS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_target_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        save_pretrained(from_pretrained(GOLDEN / "bert"), tmp_path / "file" / "new")


def test_question_answering_has_two_outputs_in_the_config_whatever_the_labels_are(tmp_path):
    """transformers gives the question answering head as many outputs as `id2label` has labels."""
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4, "num_hidden_layers": 1}
    config = BertConfig(**sizes, labels=("a", "b", "c"))
    save_pretrained(build_model(config, ["question_answering"]), tmp_path / "answers")
    save_pretrained(build_model(config, ["token_classification"]), tmp_path / "tokens")
    written = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("answers", "tokens")]
    assert [len(values.get("id2label", "ab")) for values in written] == [2, 3]


CHOICE = {
    "bert": ("Bert", {"bert.pooler.dense", "classifier"}),
    "albert": ("Albert", {"albert.pooler", "classifier"}),
    "distilbert": ("DistilBert", {"pre_classifier", "classifier"}),
    "electra": ("Electra", {"electra.embeddings_project", "sequence_summary.summary", "classifier"}),
    "roberta": ("Roberta", {"roberta.pooler.dense", "classifier"}),
    "xlm-roberta": ("XLMRoberta", {"roberta.pooler.dense", "classifier"}),
    "camembert": ("Camembert", {"roberta.pooler.dense", "classifier"}),
}


@pytest.mark.parametrize("family", CHOICE)
def test_multiple_choice_has_the_names_of_its_class_in_transformers_whatever_the_classification_has(family, tmp_path, rng):
    class_name, modules = CHOICE[family]
    fields = {"pad_token_id": 1, "position_offset": 2, "mlm_act": "gelu_erf"} if "roberta.pooler.dense" in modules else {}
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 4, "num_hidden_layers": 1}
    if family == "distilbert":
        fields = {"type_vocab_size": 0, "pooler_act": "relu"}
    if family == "albert":
        fields = {"embedding_size": 3, "num_hidden_groups": 1}
    if family == "electra":
        fields = {"embedding_size": 3, "mlm_act": "gelu_erf", "pooler_act": "gelu_erf"}
    model = build_model(BertConfig(**sizes, **fields, hidden_act="gelu_erf", family=family), ["multiple_choice"])
    save_pretrained(model, tmp_path)
    heads = {name.rsplit(".", 1)[0] for name in arrays(tmp_path) if "embeddings." not in name and "layer" not in name}
    assert heads - {"albert.encoder.embedding_hidden_mapping_in"} == modules
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["architectures"] == [f"{class_name}ForMultipleChoice"]
    again = from_pretrained(tmp_path)
    assert heads_of(again) == ("multiple_choice",)
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(other))
    if "roberta.pooler.dense" in modules:  # only there the names identify the head without the class
        (tmp_path / "config.json").write_text(json.dumps({**values, "architectures": None}))
        assert heads_of(from_pretrained(tmp_path)) == ("multiple_choice",)


def test_an_existing_folder_keeps_its_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    save_pretrained(from_pretrained(GOLDEN / "bert"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "config.json", "model.safetensors", "notes.txt"]


@pytest.mark.parametrize("format", ["huggingface", "google", "keras"])
def test_a_folder_of_another_kind_is_refused_and_files_of_the_user_stay(tmp_path, format):
    model = from_pretrained(GOLDEN / "bert")
    for name, mark in (("tokens", "index.json"), ("run", "settings.yaml"), ("export", "export.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / mark).write_text("mine")
        with pytest.raises(ValueError, match=r"and not a model, so it is not replaced"):
            save_pretrained(model, tmp_path / name, format, vocabulary=WORDS)
        assert [path.name for path in (tmp_path / name).iterdir()] == [mark]
    (tmp_path / "model" / ".git").mkdir(parents=True)
    for name in ("README.md", ".git/HEAD", "train.py"):
        (tmp_path / "model" / name).write_text("mine")
    for _ in range(2):
        save_pretrained(model, tmp_path / "model", format, vocabulary=WORDS)
    assert all((tmp_path / "model" / name).read_text() == "mine" for name in ("README.md", ".git/HEAD", "train.py"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "model", "run", "tokens"]
