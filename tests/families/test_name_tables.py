"""A family with BERT's modules under other names, whose files store queries, keys and values in one array."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.reference import weights_of
from safetensors.numpy import load_file, save_file

from keras_bert_rebuild import BertConfig, build_model, from_pretrained, save_pretrained
from keras_bert_rebuild.checkpoints.safetensors_files import SafetensorsFiles
from keras_bert_rebuild.checkpoints.table import tied, under
from keras_bert_rebuild.checkpoints.transfer import arrays_to_write
from keras_bert_rebuild.explain.weight_names import WeightNames, weight_names
from keras_bert_rebuild.families import FAMILIES, bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, shared_heads
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint

POOLED = {ours.POOLER: "toy.pooler"}
TOY = SimpleNamespace(
    **{name: getattr(bert, name) for name in ("CONFIG", "FIXED")},
    MODEL_TYPES={"toy": "Toy"},
    CLASS_DEFAULTS={"toy": {}},
    HUGGINGFACE=PYTORCH.table(
        embeddings=under("toy.emb.", {ours.TOKEN: "tok", ours.SEGMENT: "type", ours.POSITION: "pos", ours.EMBEDDING_NORM: "ln"}),
        block=under(
            "toy.layers.{layer}.",
            {
                ours.QKV: "attn.Wqkv",
                ours.ATTENTION_OUTPUT: "attn.Wo",
                ours.ATTENTION_NORM: "norm1",
                ours.INTERMEDIATE: "mlp.fc1",
                ours.OUTPUT: "mlp.fc2",
                ours.OUTPUT_NORM: "norm2",
            },
        ),
        heads={
            "pooler": POOLED,
            "mlm": {
                ours.MLM_DENSE: "head.dense",
                ours.MLM_NORM: "head.norm",
                ours.MLM_BIAS: "decoder",
                tied(ours.TOKEN): "decoder",
            },
            **shared_heads(POOLED),
        },
        prefix="toy.",
    ),
)
CONFIG = BertConfig(
    family="toy",
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=10,
    max_position_embeddings=7,
    labels=("a", "b"),
)
PARTS = [f"Encoder-2-MultiHeadSelfAttention/{part}" for part in ("query", "key", "value")]
WQKV = "toy.layers.1.attn.Wqkv"


@pytest.fixture(autouse=True)
def family(monkeypatch):
    monkeypatch.setitem(FAMILIES, "toy", TOY)


@pytest.fixture
def model(rng):
    model = build_model(CONFIG, ("mlm",))
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    return model


@pytest.fixture
def folder(model, tmp_path):
    save_pretrained(model, tmp_path / "saved")
    return tmp_path / "saved"


def arrays_in(folder):
    return {name: array for file in folder.glob("*.safetensors") for name, array in load_file(file).items()}


def rewrite(folder, **arrays):
    """Replace arrays of a file, or remove them where they are None."""
    arrays = arrays_in(folder) | arrays
    save_file({name: array for name, array in arrays.items() if array is not None}, folder / "model.safetensors")


def test_three_kernels_and_three_biases_are_each_written_as_one_array(model, folder):
    weights, arrays = weights_of(model), arrays_in(folder)
    np.testing.assert_array_equal(arrays[f"{WQKV}.weight"], np.concatenate([weights[f"{part}/kernel"].T for part in PARTS]))
    np.testing.assert_array_equal(arrays[f"{WQKV}.bias"], np.concatenate([weights[f"{part}/bias"] for part in PARTS]))
    assert len(arrays) == len(weights) - 2 * CONFIG.num_hidden_layers * 2
    assert sum(array.size for array in arrays.values()) == model.count_params()


def test_a_joined_array_is_read_once_into_three_variables(folder, rng, monkeypatch):
    joined, read, reads = rng.normal(size=(18, 6)).astype("float32"), SafetensorsFiles.read, []
    rewrite(folder, **{f"{WQKV}.weight": joined})
    monkeypatch.setattr(SafetensorsFiles, "read", lambda self, name: reads.append(name) or read(self, name))
    weights = weights_of(from_pretrained(folder))
    for part, rows in zip(PARTS, (joined[:6], joined[6:12], joined[12:]), strict=True):
        np.testing.assert_array_equal(weights[f"{part}/kernel"], rows.T)
    assert sorted(reads) == sorted(arrays_in(folder))


@pytest.mark.parametrize("limit", [5_000_000_000, 300])
@pytest.mark.parametrize("heads", [("mlm",), ("pooler",), (), ("classification",), ("multiple_choice",)])
def test_weights_round_trip_bit_exactly_in_one_file_and_in_shards(rng, tmp_path, heads, limit):
    model = build_model(CONFIG, heads)
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape).astype("float32"))
    save_pretrained(model, tmp_path / "there", max_shard_bytes=limit)
    back = from_pretrained(tmp_path / "there")
    before, after = weights_of(model), weights_of(back)
    assert before.keys() == after.keys()
    for path, value in before.items():
        np.testing.assert_array_equal(value, after[path], err_msg=path)
    assert {path for path, _, _ in back.load_report.loaded} == set(before)
    assert (back.load_report.missing, back.load_report.unused) == ([], [])
    save_pretrained(back, tmp_path / "back", max_shard_bytes=limit)
    one, two = (arrays_in(tmp_path / name) for name in ("there", "back"))
    assert {name: array.tobytes() for name, array in one.items()} == {name: array.tobytes() for name, array in two.items()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_joined_array_of_another_dtype_is_read(folder, dtype):
    joined = arrays_in(folder)[f"{WQKV}.weight"].astype(dtype)
    rewrite(folder, **{f"{WQKV}.weight": joined})
    weights = weights_of(from_pretrained(folder))
    np.testing.assert_array_equal(weights[f"{PARTS[1]}/kernel"], joined[6:12].T.astype("float32"))


def test_an_error_in_a_joined_array_names_all_its_parts(folder):
    rewrite(folder, **{f"{WQKV}.weight": np.zeros((12, 6), "float32"), f"{WQKV}.bias": None})
    with pytest.raises(ValueError, match="does not fit") as error:
        from_pretrained(folder)
    said = str(error.value).splitlines()
    assert len(said) == 7
    for part in PARTS:
        assert f"  {part}/kernel: expected shape (18, 6); {WQKV}.weight has (12, 6)" in said
        assert any(line.startswith(f"  {part}/bias: {WQKV}.bias is missing") for line in said)
    with pytest.warns(UserWarning, match="6 of .* variables are newly initialised"):
        report = from_pretrained(folder, strict=False).load_report
    assert {path for path, _ in report.missing} == {f"{part}/{kind}" for part in PARTS for kind in ("kernel", "bias")}


def test_numbers_that_are_not_finite_are_reported_for_their_part(folder):
    joined = arrays_in(folder)[f"{WQKV}.weight"].copy()
    joined[7, 0] = np.nan
    rewrite(folder, **{f"{WQKV}.weight": joined})
    with pytest.warns(UserWarning, match="has non-finite values") as warned:
        from_pretrained(folder)
    assert [str(one.message).split("; ")[1] for one in warned] == [f"{PARTS[1]}/kernel now has them too."]


def test_inspect_names_all_parts_of_an_array(folder):
    found = inspect_checkpoint(folder)
    assert found["heads"] == ["mlm"]
    paths = {row.name: row.path for row in found["names"]}
    assert paths[f"{WQKV}.weight"] == ", ".join(f"{part}/kernel" for part in PARTS)
    assert "?" not in paths.values()


def test_the_table_of_names_has_the_rows_of_each_part(model, folder):
    rows = weight_names(CONFIG, ("mlm",))
    arrays, weights = arrays_in(folder), weights_of(model)
    assert sum(row.parameters for row in rows) == model.count_params()
    assert {row.name: row.their_shape for row in rows if row.parameters} == {name: array.shape for name, array in arrays.items()}
    key = next(row for row in rows if row.path == f"{PARTS[1]}/kernel")
    assert (key.name, key.heads, key.part) == (f"{WQKV}.weight", "rows 6–7 head 0, … 10–11 head 2", (0, 6, 12))
    for row in (row for row in rows if row.path.startswith(tuple(PARTS))):
        ours_of_head = np.moveaxis(weights[row.path], -1, 0)[2:4]
        np.testing.assert_array_equal(arrays[row.name][row.of_head(1)], ours_of_head, err_msg=row.path)
    assert '"part": [\n      0,\n      6,\n      12\n    ]' in WeightNames([key]).json_text()


def test_a_model_without_one_part_of_an_array_is_not_written(model, tmp_path):
    variables = [variable for variable in model.weights if variable.path != f"{PARTS[1]}/bias"]
    with pytest.raises(ValueError, match=f"the format has no name for:\n  {PARTS[0]}/bias without {PARTS[1]}/bias"):
        list(arrays_to_write(variables, TOY.HUGGINGFACE.rows(2, ("mlm",))))
