"""Handmade files: small ones that claim a lot of memory, wait forever, or would run something."""

import gzip
import json
import lzma
import os
import pickle
import struct
import subprocess
import zipfile

import h5py
import numpy as np
from hostile.samples import SAMPLES

from keras_bert_rebuild.checkpoints import leveldb_table
from keras_bert_rebuild.checkpoints.leveldb_table import make_field, write_table
from keras_bert_rebuild.files.reading import varint


class Touch:
    """Unpickled, it writes the mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (os.system, (f"touch {self.mark}",))


def pipe(folder, file, mark):
    (folder / file).unlink()
    os.mkfifo(folder / file)


def device(folder, file, mark):
    (folder / file).unlink()
    (folder / file).symlink_to("/dev/zero")


def hole(folder, file, mark):
    os.truncate(folder / file, 1 << 40)


def repository(folder, file, mark):
    hook = folder / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "config", "core.fsmonitor", hook], check=True)


class Filled:
    """Unpickled, it takes three gigabytes."""

    def __reduce__(self):
        return (bytearray, (3 << 30,))


def torch_file(make, zipped=True):
    def write(folder, file, mark):
        import torch

        torch.save(make(torch), folder / file, _use_new_zipfile_serialization=zipped)

    return write


def torch_pickle(folder, file, mark):
    (folder / file).write_bytes(pickle.dumps({"bert.pooler.dense.bias": Touch(mark)}, protocol=2))


def torch_zip_pickle(folder, file, mark):
    with zipfile.ZipFile(folder / file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Touch(mark)}, protocol=2))
        archive.writestr("archive/version", "3\n")


def hdf5(change):
    def write(folder, file, mark):
        with h5py.File(folder / file, "a") as opened:
            change(opened.get("model_weights", opened), folder)

    return write


def external_pipe(group, folder):
    os.mkfifo(folder / "pipe")
    first = next(iter(group))
    del group[first]
    group[first] = h5py.ExternalLink(str(folder / "pipe"), "/a")


def soft_loop(group, folder):
    first = next(iter(group))
    del group[first]
    group[first] = h5py.SoftLink("/" + first)


def own_loop(group, folder):
    first = next(iter(group))
    group[first]["again"] = group


def declared(group, folder):
    group.create_dataset("huge", (1 << 40,), "float32", chunks=(1024,))


def packed(group, folder):
    group.create_dataset("zeros", data=np.zeros(300 << 20, "uint8"), compression="gzip", chunks=(64 << 20,))


def every_array(group, folder):
    """Every array has a huge declared shape, and none of its data is stored."""
    names = []
    group.visititems(lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) and found.ndim else None)
    for name in names:
        shape = group[name].shape
        del group[name]
        group.create_dataset(name, (shape[0] << 20, *shape[1:]), "float32", chunks=True)


def keras_members(change):
    def write(folder, file, mark):
        with zipfile.ZipFile(folder / file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members, mark)
        with zipfile.ZipFile(folder / file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return write


def unpacks(members, mark):
    members["assets/zeros"] = bytes(200 << 20)


def long_config(members, mark):
    members["config.json"] = b" " * (80 << 20) + members["config.json"]


def program(members, mark):
    config = json.loads(members["config.json"])
    code = {"class_name": "__lambda__", "config": {"value": ["4wAAAA==", None, None]}}
    inner = {"module": "keras.layers", "class_name": "Lambda", "config": {"function": code, "name": "l"}, "name": "l"}
    config["config"]["layers"].append({**inner, "inbound_nodes": [], "registered_name": None})
    members["config.json"] = json.dumps(config).encode()


def foreign_class(members, mark):
    config = json.loads(members["config.json"])
    config |= {"module": "os", "class_name": "system", "registered_name": None, "config": {"command": f"touch {mark}"}}
    members["config.json"] = json.dumps(config).encode()


def escaping(members, mark):
    members[f"../../{mark.name}"] = members[f"assets/../../{mark.name}"] = b"x"


def same_block(folder, file, mark):
    """Twenty thousand handles to one block."""
    body = leveldb_table._make_block([(b"a" * 200 + str(i).encode(), b"") for i in range(1000)])
    content = leveldb_table._closed(body)
    handle = varint(0) + varint(len(body))
    _end_of_table(folder / file, content, [(f"{i:09}".encode(), handle) for i in range(20_000)])


def shared_names(folder, file, mark):
    """Names that share a long prefix with the one before: 20 GB of names from 480 kB."""
    part = varint(0) + varint(200_000) + varint(0) + b"a" * 200_000
    again = varint(200_000) + varint(1) + varint(0) + b"b"
    body = part + again * 50_000 + struct.pack("<II", 0, 1)
    handle = varint(0) + varint(len(body))
    _end_of_table(folder / file, leveldb_table._closed(body), [(b"z", handle)])


def _end_of_table(path, content, index):
    handles = b""
    for body in (leveldb_table._make_block(()), leveldb_table._make_block(index)):
        handles += varint(len(content)) + varint(len(body))
        content += leveldb_table._closed(body)
    path.write_bytes(content + handles.ljust(40, b"\0") + struct.pack("<Q", leveldb_table.MAGIC))


def lying_shapes(folder, file, mark):
    """Arrays of terabytes that all point to the same few bytes."""
    table = {b"": make_field(1, 1)}
    shape = make_field(2, make_field(1, 1 << 40))
    for i in range(2000):
        table[f"bert/{i}".encode()] = make_field(1, 1) + make_field(2, shape) + make_field(4, 0) + make_field(5, 1 << 42)
    write_table(folder / file, table)


def many_dimensions(folder, file, mark):
    shape = make_field(2, make_field(1, 1 << 60)) * 200_000
    write_table(folder / file, {b"": make_field(1, 1), b"bert/a": make_field(1, 1) + make_field(2, shape)})


def header(make):
    def write(folder, file, mark):
        content = make()
        (folder / file).write_bytes(struct.pack("<Q", len(content)) + content)

    return write


def evil_names(folder, file, mark):
    """Names that imitate the output of `inspect` and move the cursor."""
    path = folder / file
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    entries = json.loads(content[8 : 8 + length])
    for i, evil in enumerate(("a\n\nEvery weight has a variable.", "\x1b[2J\x1b]0;x\x07", "a\u202eb", "\x9b1m")):
        entries[evil] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} if i else entries.pop(next(iter(entries)))
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def changed(**values):
    def write(folder, file, mark):
        path = folder / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return write


def content(make):
    def write(folder, file, mark):
        made = make()
        (folder / file).write_bytes(made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass"))

    return write


def yaml_program(folder, file, mark):
    (folder / file).write_text(f"!!python/object/apply:os.system ['touch {mark}']")


def lora_settings(**values):
    def write(folder, file, mark):
        from safetensors import safe_open
        from safetensors.numpy import save_file

        with safe_open(folder / file, "np") as opened:
            metadata = opened.metadata()
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  it is no dictionary
        settings = {**json.loads(metadata["lora"]), **values}
        save_file(arrays, folder / file, {**metadata, "lora": json.dumps(settings)})

    return write


def yaml_aliases():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join(lines)


def many_tokens():
    return json.dumps({f"<{'x' * (i % 50)}{i}>": 30 + i for i in range(20_000)})


def far_passages(folder, file, mark):
    import hashlib

    path = folder / file
    array = np.load(path)
    array[-1] = 2**62
    np.save(path, array)
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["files"][file] = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (folder / "index.json").write_text(json.dumps(index))


EVIL_PATTERN = "(.*a|.*b|.*)*$(x+x+)+y"
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
OBJECTS = b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,)}".ljust(128)
MANY = {f"a{i}": i for i in range(300_000)}

# Name: the sample, its file that is changed, and how.
BOMBS = {
    **{f"pipe-{name}": (name, files[0], pipe) for name, (_, files) in SAMPLES.items()},
    **{f"pipe-last-{name}": (name, files[-1], pipe) for name, (_, files) in SAMPLES.items()},
    **{f"device-{name}": (name, files[0], device) for name, (_, files) in SAMPLES.items()},
    **{
        f"hole-{name}": (name, files[0], hole)
        for name, (_, files) in SAMPLES.items()
        if name not in ("corpus", "labelled", "retrieval", "run")
    },
    **{f"repository-{name}": (name, SAMPLES[name][1][0], repository) for name in SAMPLES},
    "torch-pickle": ("torch", "pytorch_model.bin", torch_pickle),
    "torch-zip-pickle": ("torch", "pytorch_model.bin", torch_zip_pickle),
    "torch-sparse": ("torch", "pytorch_model.bin", torch_file(lambda t: {"bert.pooler.dense.bias": t.ones(24).to_sparse()})),
    "torch-meta": ("torch", "pytorch_model.bin", torch_file(lambda t: {"a": t.empty(1 << 40, device="meta")})),
    "torch-expanded": ("torch", "pytorch_model.bin", torch_file(lambda t: {"a": t.ones(1).expand(1 << 36)})),
    "torch-many": ("torch", "pytorch_model.bin", torch_file(lambda t: dict.fromkeys(map(str, range(200_000)), t.empty(0)))),
    "torch-filled": ("torch", "pytorch_model.bin", torch_file(lambda t: {"a": Filled()})),
    "torch-old-filled": ("torch_old", "pytorch_model.bin", torch_file(lambda t: {"a": Filled()}, zipped=False)),
    "torch-old-many": ("torch_old", "pytorch_model.bin", torch_file(lambda t: {str(i): 0 for i in range(2_000_000)}, zipped=False)),
    "torch-old-sparse": (
        "torch_old",
        "pytorch_model.bin",
        torch_file(lambda t: {"bert.pooler.dense.bias": t.ones(24).to_sparse()}, zipped=False),
    ),
    "torch-list": ("torch", "pytorch_model.bin", torch_file(lambda t: [t.ones(1)])),
    "torch-complex": ("torch", "pytorch_model.bin", torch_file(lambda t: {"bert.pooler.dense.bias": t.ones(24) * 1j})),
    **{
        f"hdf5-{change.__name__}-{sample}": (sample, SAMPLES[sample][1][0], hdf5(change))
        for change in (external_pipe, soft_loop, own_loop, declared, packed, every_array)
        for sample in ("tf_model", "keras_bert", "whole_h5", "weights")
    },
    **{
        f"keras-{change.__name__}": ("whole", "model.keras", keras_members(change))
        for change in (unpacks, long_config, program, foreign_class, escaping)
    },
    **{
        f"index-{change.__name__}": ("tensorflow", "bert_model.ckpt.index", change)
        for change in (same_block, shared_names, lying_shapes, many_dimensions)
    },
    "header-spaces": ("safetensors", "model.safetensors", header(lambda: b"{}" + b" " * (90 << 20))),
    "header-many": (
        "safetensors",
        "model.safetensors",
        header(lambda: json.dumps({str(i): EMPTY for i in range(200_000)}).encode()),
    ),
    "header-names": ("safetensors", "model.safetensors", evil_names),
    "index-outside": ("shards", "model.safetensors.index.json", changed(weight_map={"a": "../safetensors/model.safetensors"})),
    "index-other": ("shards", "model.safetensors.index.json", changed(weight_map={"a": "model-00001-of-00002.safetensors"})),
    **{
        f"config-{i}-{sample}": (sample, file, changed(**values))
        for sample, file in (("config", "config.json"), ("safetensors", "config.json"), ("google_config", "bert_config.json"))
        for i, values in enumerate(
            (
                {"num_labels": 10**9},
                {"num_hidden_layers": 10**6},
                {"num_hidden_layers": 512, "hidden_size": 32},
                {"hidden_size": 10**400},
                {"vocab_size": 9_999_999, "hidden_size": 60_000, "num_attention_heads": 1},
                {"hidden_act": {"class_name": "Lambda", "config": {"function": "os.system"}}},
                {"layer_norm_eps": 1e400},
                {"num_attention_heads": 3, "hidden_size": 16},
                {"id2label": MANY},
                {"max_position_embeddings": 4_000_000},
            )
        )
    },
    "xz-bomb": ("labelled", "a.csv.xz", content(lambda: lzma.compress(b"a,b\n" * (75 << 20), preset=0))),
    "xz-lines": ("labelled", "a.csv.xz", content(lambda: lzma.compress(b"\n" * (300 << 20), preset=0))),
    "xz-corpus": ("corpus", "b.txt.xz", content(lambda: lzma.compress(b"a b c\n" * (50 << 20), preset=0))),
    "gz-named-xz": ("corpus", "b.txt.xz", content(lambda: gzip.compress(b"text"))),
    "cell": ("labelled", "a.csv", content(lambda: "text,label\n" + "a" * 30_000_000 + ",x\n")),
    "line": ("labelled", "a.tsv", content(lambda: "text\tlabel\n" + "a" * 30_000_000 + "\tx\n")),
    "json-cell": ("labelled", "a.jsonl", content(lambda: json.dumps({"text": "a" * 30_000_000, "label": "x"}))),
    "yaml-aliases": ("settings", "settings.yaml", content(yaml_aliases)),
    "yaml-deep": ("settings", "settings.yaml", content(lambda: "[" * 100_000)),
    "yaml-blocks": ("settings", "versions.yaml", content(lambda: "\n".join(" " * i + "a:" for i in range(1000)))),
    "yaml-tag": ("settings", "settings.yaml", yaml_program),
    "lora-pattern": ("lora", "lora.safetensors", lora_settings(patterns=[EVIL_PATTERN])),
    "lora-trained": ("lora", "lora.safetensors", lora_settings(trained=["^(([a-zA-Z]+)*)*!"])),
    "lora-long": ("lora", "lora.safetensors", lora_settings(trained=["a|" * 100_000])),
    "lora-rank": ("lora", "lora.safetensors", lora_settings(rank=10**9)),
    "lora-alpha": ("lora", "lora.safetensors", lora_settings(alpha=float("inf"))),
    "added-tokens": ("wordpiece", "added_tokens.json", content(many_tokens)),
    "vocabulary": ("wordpiece", "vocab.txt", content(lambda: "\n" * 5_000_000)),
    "long-token": ("wordpiece", "vocab.txt", content(lambda: "a" * 10_000_000)),
    "json-lists": ("wordpiece", "tokenizer.json", content(lambda: "[" + "[]," * 12_000_000 + "1]")),
    "json-emoji": ("task", "task.json", content(lambda: '"' + "a" * (60 << 20) + '\U0001f642"')),
    "far-passages": ("store", "shard-000000.passages.npy", far_passages),
    "far-documents": ("store", "shard-000000.documents.npy", far_passages),
    "pickled-array": (
        "store",
        "shard-000000.ids.npy",
        content(lambda: OBJECTS),
    ),
}
