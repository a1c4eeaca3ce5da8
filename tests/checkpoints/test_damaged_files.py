"""Damaged files: a clear error or a correct load, nothing else."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers.hostile_inputs import EXHAUSTIVE

from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert_rebuild.checkpoints.transfer import load_variables
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
COUNT = 10_000 if EXHAUSTIVE else 200
DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4", "I64": "<i8"}


class Variable:
    """What the loader needs of a variable."""

    def __init__(self, path, shape):
        self.path, self.shape, self.value = path, shape, None

    def assign(self, value):
        assert value.shape == self.shape
        self.value = np.array(value)


@pytest.fixture(scope="module")
def shapes():
    checkpoint = find_checkpoint(GOLDEN / "bert_pretraining")
    model = build_model(checkpoint.config, checkpoint.heads)
    return {weight.path: tuple(weight.shape) for weight in model.weights}


def load(folder, shapes):
    """The values by path, or None where the files are refused."""
    variables = [Variable(path, shape) for path, shape in shapes.items()]
    try:
        checkpoint = find_checkpoint(folder)
        rows = checkpoint.table.rows(checkpoint.config.num_distinct_blocks, ("mlm", "nsp"))
        report = load_variables(variables, checkpoint.source, checkpoint.table, rows)
    except ValueError:
        return None
    assert {path for path, _, _ in report.loaded} == set(shapes)
    return {variable.path: (variable.value, name) for variable, (_, name, _) in zip(variables, report.loaded, strict=True)}


def damaged(content, rng):
    """The bytes with something wrong: cut, changed, exchanged, repeated."""
    content = bytearray(content)
    kind = rng.integers(4)
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
    if kind == 0:
        return bytes(content[:at])
    if kind == 1:
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            content[place] = rng.integers(256)
    elif kind == 2:
        content[at : at + length] = content[int(rng.integers(len(content))) :][:length]
    else:
        content[at:at] = content[at : at + length]
    return bytes(content)


def independent_arrays(content):
    """The arrays of a safetensors file, from the format alone."""
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        raw = content[8 + length + start : 8 + length + end]
        if entry["dtype"] in DTYPES:
            arrays[name] = np.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


@pytest.mark.filterwarnings("ignore:.*non-finite")
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_damaged_safetensors_files_are_refused_or_read_as_they_are(tmp_path, shapes):
    shutil.copytree(GOLDEN / "bert_pretraining", tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    good, rng, refused = file.read_bytes(), np.random.default_rng(1), 0
    header = 8 + struct.unpack_from("<Q", good)[0]
    for i in range(COUNT):
        # Every second time only the bytes before the numbers, which hold the structure.
        bad = damaged(good, rng) if i % 2 else damaged(good[:header], rng) + good[header:]
        file.write_bytes(bad)
        values = load(tmp_path / "model", shapes)
        if values is None:
            refused += 1
            continue
        arrays = independent_arrays(bad)
        for path, (value, name) in values.items():
            expected = arrays[name]
            np.testing.assert_array_equal(
                value, expected.T if value.shape != expected.shape or path.endswith("kernel") else expected
            )
    assert COUNT / 3 < refused < COUNT


def test_damaged_tensorflow_checkpoints_are_refused_or_read_as_they_were(tmp_path, shapes):
    source = find_checkpoint(GOLDEN / "bert_pretraining")
    rng = np.random.default_rng(2)
    from keras_bert_rebuild.families import bert

    rows = bert.GOOGLE.rows(2, ("mlm", "nsp"))
    arrays = {row.name: rng.normal(size=shapes[row.path]).astype("float32") for row in rows if row.layout != "transposed"}
    arrays |= {row.name: rng.normal(size=shapes[row.path][::-1]).astype("float32") for row in rows if row.layout == "transposed"}
    prefix = tmp_path / "bert_model.ckpt"
    write_tensorflow_checkpoint(prefix, arrays.items())
    config = {"hidden_act": "gelu", **{k: v for k, v in source.config.to_dict().items() if k.endswith(("size", "layers", "heads"))}}
    config |= {"max_position_embeddings": 24}
    (tmp_path / "bert_config.json").write_text(json.dumps(config))
    original = load(tmp_path, shapes)
    assert original is not None
    files = [Path(f"{prefix}{ending}") for ending in (".index", ".data-00000-of-00001")]
    good, refused = [file.read_bytes() for file in files], 0
    for i in range(COUNT):
        file, content = files[i % 2], good[i % 2]
        file.write_bytes(damaged(content, rng))
        values = load(tmp_path, shapes)
        file.write_bytes(content)
        if values is None:
            refused += 1
            continue
        for path, (value, name) in values.items():  # every byte that counts is under a checksum
            np.testing.assert_array_equal(value, original[path][0], err_msg=name)
    assert refused > COUNT / 3


def test_damaged_configs_are_refused_or_fit(tmp_path, shapes):
    shutil.copytree(GOLDEN / "bert_pretraining", tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    good, rng, refused = file.read_bytes(), np.random.default_rng(4), 0
    for _ in range(COUNT):
        file.write_bytes(damaged(good, rng))
        refused += load(tmp_path / "model", shapes) is None
    assert refused > COUNT / 10


def test_a_header_with_a_wrong_length_is_refused(tmp_path, shapes):
    shutil.copytree(GOLDEN / "bert_pretraining", tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    good = file.read_bytes()
    for length in (0, 1, 2**63, len(good), struct.unpack_from("<Q", good)[0] - 1, struct.unpack_from("<Q", good)[0] + 1):
        file.write_bytes(struct.pack("<Q", length) + good[8:])
        with pytest.raises(ValueError, match="is not a safetensors file, or is damaged"):
            find_checkpoint(tmp_path / "model")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "is not an index of weight files"),
        ("[]", "is not an index of weight files"),
        ('{"weight_map": {"a": "../model.safetensors"}}', r"lists ../model.safetensors, which is outside its folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "lists /etc/passwd, which is outside its folder"),
        ('{"weight_map": {"a": "missing.safetensors"}}', "expected a safetensors file at .*missing.safetensors; it does not exist"),
        ('{"weight_map": {"a": 3}}', "is not an index of weight files"),
    ],
)
def test_an_index_may_only_name_files_in_its_folder(tmp_path, index, message):
    shutil.copy(GOLDEN / "bert_pretraining" / "config.json", tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ValueError, match=message):
        find_checkpoint(tmp_path)


def test_a_pickle_that_runs_code_is_never_run(tmp_path):
    import importlib.util
    import pickle

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    shutil.copy(GOLDEN / "bert_pretraining" / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"bert.pooler.dense.bias": Evil()}, protocol=2))
    expected = "is not a PyTorch state dictionary" if importlib.util.find_spec("torch") else "install it .pip install torch."
    with pytest.raises(ValueError, match=expected):
        find_checkpoint(tmp_path)
    assert not (tmp_path / "ran").exists()
