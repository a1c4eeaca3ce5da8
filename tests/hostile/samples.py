"""Good files of every format that the library reads, as small as possible: the starting point of the attacks."""

import json
import lzma
import shutil
from pathlib import Path

import keras
import numpy as np
from helpers.small_tasks import PETS, TOKENIZER, small_encoder, small_task
from helpers.small_tokenizers import byte_level_bpe, sentencepiece
from hostile.folders import FOLDERS, write_folders

from keras_bert_rebuild import add_lora, save_lora, save_pretrained
from keras_bert_rebuild.checkpoints.safetensors_files import SafetensorsFiles
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.tasks.text_classifier import TextClassifier

GOLDEN = Path(__file__).parents[1] / "golden"

# Name of a sample: the action on its folder, and the files in it that are changed, by patterns.
SAMPLES = {
    "safetensors": ("load", ("model.safetensors",)),
    "shards": ("load", ("model.safetensors.index.json", "model-00001-of-00002.safetensors")),
    "torch": ("load", ("pytorch_model.bin",)),
    "torch_old": ("load", ("pytorch_model.bin",)),
    "tensorflow": ("load", ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001")),
    "tf_model": ("load", ("tf_model.h5",)),
    "keras_bert": ("load", ("model.h5",)),
    "whole": ("load", ("model.keras",)),
    "whole_h5": ("load", ("model.h5",)),
    "weights": ("load", ("model.weights.h5",)),
    "config": ("describe", ("config.json",)),
    "google_config": ("describe", ("bert_config.json",)),
    "task": ("answer", ("task.json", "config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors")),
    "wordpiece": ("tokenize", ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "added_tokens.json")),
    "bpe": ("tokenize", ("tokenizer.json", "vocab.json", "merges.txt")),
    "byte_pairs": ("tokenize", ("merges.txt", "vocab.json")),
    "sentencepiece": ("tokenize", ("spiece.model",)),
    "store": ("store", ("index.json", "vocab.txt", *(f"shard-000000.{kind}.npy" for kind in ("ids", "passages", "documents")))),
    "labelled": ("labelled", ("a.csv", "a.tsv", "a.jsonl", "a.conll", "a.json", "a.csv.xz")),
    "corpus": ("corpus", ("a.txt", "b.txt.xz")),
    "settings": ("settings", ("settings.yaml", "versions.yaml")),
    "lora": ("lora", ("lora.safetensors",)),
    "checkpoint": ("checkpoint", ("facts.json", "state.safetensors")),
    **FOLDERS,
}


def write_samples(folder):
    """Write a folder for every sample."""
    for name in SAMPLES:
        (folder / name).mkdir()
    _write_models(folder)
    _write_texts(folder)
    write_folders(folder)
    for name, (_, patterns) in SAMPLES.items():
        assert all(files_of(folder / name, pattern) for pattern in patterns), (name, patterns)


def files_of(folder, *patterns):
    """The files of a folder that fit patterns, as paths inside it, in the order of the patterns."""
    found = (sorted(folder.glob(pattern)) for pattern in patterns)
    return [str(path.relative_to(folder)) for paths in found for path in paths if path.is_file()]


def _write_models(folder):
    golden = GOLDEN / "bert_pretraining"
    for name in ("safetensors", "shards", "torch", "torch_old"):
        shutil.copy(golden / "config.json", folder / name)
    shutil.copy(golden / "model.safetensors", folder / "safetensors")
    source = SafetensorsFiles(golden / "model.safetensors")
    arrays = {name: source.read(name) for name in source.names}
    _write_shards(folder / "shards", arrays)
    _write_torch(folder / "torch" / "pytorch_model.bin", arrays)
    _write_torch(folder / "torch_old" / "pytorch_model.bin", arrays, zipped=False)
    save_pretrained(small_encoder(("mlm", "nsp")), folder / "tensorflow_", "google")
    shutil.copytree(folder / "tensorflow_", folder / "tensorflow", dirs_exist_ok=True)
    for file in (GOLDEN / "tf_pretraining").glob("[ct]*"):
        shutil.copy(file, folder / "tf_model")
    shutil.copy(GOLDEN / "keras_bert" / "model.h5", folder / "keras_bert")
    encoder = small_encoder()
    encoder.save(folder / "whole" / "model.keras")
    encoder.save(folder / "whole_h5" / "model.h5")
    encoder.save_weights(folder / "weights" / "model.weights.h5")
    save_pretrained(encoder, folder / "weights_", "huggingface")
    shutil.copy(folder / "weights_" / "config.json", folder / "weights")
    shutil.copy(GOLDEN / "bert_classification" / "config.json", folder / "config")
    shutil.copy(folder / "tensorflow" / "bert_config.json", folder / "google_config")
    add_lora(encoder, rank=2)
    save_lora(encoder, folder / "lora" / "lora.safetensors")


def _write_shards(folder, arrays):
    from safetensors.numpy import save_file

    names = sorted(arrays)
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    of = {name: files[i % 2] for i, name in enumerate(names)}
    for file in files:
        save_file({name: np.ascontiguousarray(arrays[name]) for name in names if of[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": of}))


def _write_torch(path, arrays, zipped=True):
    import torch

    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)


def _write_texts(folder):
    small_task(TextClassifier, labels=["cat", "dog"]).save(folder / "task_")
    shutil.copytree(folder / "task_", folder / "task", dirs_exist_ok=True)
    vocabulary = list(TOKENIZER.vocabulary)
    lines = "".join(f"{token}\n" for token in vocabulary)
    (folder / "wordpiece" / "vocab.txt").write_text(lines)
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {token: i for i, token in enumerate(vocabulary)}}
    model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": 4, "content": "[MASK]", "special": True, **flags}]
    whole = {"version": "1.0", "added_tokens": added, "normalizer": {"type": "BertNormalizer", "lowercase": True}, "model": model}
    whole["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    (folder / "wordpiece" / "tokenizer.json").write_text(json.dumps(whole))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "added_tokens_decoder": {}}
    (folder / "wordpiece" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "wordpiece" / "added_tokens.json").write_text("{}")
    byte_level_bpe(folder / "bpe")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(folder / "bpe" / name, folder / "byte_pairs")
    (folder / "sentencepiece" / "spiece.model").write_bytes(sentencepiece("albert"))
    (folder / "store_vocab.txt").write_text(lines)
    (folder / "store_text.txt").write_text("\n\n".join("the cat sat\non the mat\nanna likes ben" for _ in range(9)))
    prepare(folder / "store_text.txt", folder / "store_vocab.txt", folder / "store_", workers=1)
    shutil.copytree(folder / "store_", folder / "store", dirs_exist_ok=True)
    _write_examples(folder / "labelled")
    (folder / "corpus" / "a.txt").write_text("the cat sat\n\nanna likes ben\n" * 20)
    (folder / "corpus" / "b.txt.xz").write_bytes(lzma.compress(b"the dog sat on the mat\n\n" * 30))
    (folder / "settings" / "settings.yaml").write_text("seed: 1\nlengths: [128, 512]\nmodel: {hidden_size: 8}\n")
    (folder / "settings" / "versions.yaml").write_text("starts:\n- {keras: 3.15.1, backend: torch}\n")
    _write_checkpoint(folder / "checkpoint")


def _write_examples(folder):
    rows = [(example.text, example.label) for example in PETS]
    table = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    (folder / "a.csv").write_text(table)
    (folder / "a.csv.xz").write_bytes(lzma.compress(table.encode()))
    (folder / "a.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    (folder / "a.conll").write_text("\n".join("anna B-PER\nlikes O\nparis B-LOC\n" for _ in range(5)))
    answer = {"text": "anna", "answer_start": 0}
    questions = [{"id": str(i), "question": "who", "answers": [answer]} for i in range(4)]
    paragraphs = [{"context": "anna likes paris", "qas": questions}]
    (folder / "a.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))


def _write_checkpoint(folder):
    import hashlib

    from safetensors.numpy import save_file

    from keras_bert_rebuild.training.state.checkpoint import write_facts

    save_file({"a": np.ones(3, "float32")}, folder / "state.safetensors")
    digest = hashlib.sha256((folder / "state.safetensors").read_bytes()).hexdigest()
    write_facts(folder, 3, digest, {"epoch": 1}, None)


def main():
    """Write the samples into the folder named on the command line, in a separate process."""
    import sys

    keras.utils.set_random_seed(0)
    write_samples(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
