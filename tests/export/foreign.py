"""Run texts through an exported folder in a separate process that cannot import this library.

`python -I foreign.py RUNTIME FOLDER TEXTS OUTPUT` writes the outputs for a list of texts, arrays by name.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def run_foreign(runtime, folder, texts, scratch, seconds=300):
    """The outputs of an exported folder for texts, arrays by name; the runtime is one of `RUNTIMES`."""
    (scratch / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    command = [sys.executable, "-I", __file__, runtime, str(folder), str(scratch / "texts.json"), str(scratch / "answers.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(scratch / "answers.npz") as file:
        return dict(file)


def with_tokenizers(folder, texts):
    """ONNX Runtime or OpenVINO behind the package tokenizers."""
    from tokenizers import Tokenizer

    encoded = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)
    columns = {
        "input_ids": np.array([row.ids for row in encoded]),
        "token_type_ids": np.array([row.type_ids for row in encoded]),
        "attention_mask": np.array([row.attention_mask for row in encoded]),
    }
    if (folder / "model.onnx").exists():
        import onnxruntime

        session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
        names = [tensor.name for tensor in session.get_outputs()]
        values = session.run(names, {tensor.name: columns[tensor.name] for tensor in session.get_inputs()})
    else:
        import openvino

        model = openvino.compile_model(str(folder / "model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        results = model({tensor.any_name: columns[tensor.any_name] for tensor in model.inputs})
        names = json.loads((folder / "export.json").read_text(encoding="utf-8"))["outputs"]
        values = [results[name] for name in names]
    return {"input_ids": columns["input_ids"], **dict(zip(names, values, strict=True))}


def with_tensorflow(folder, texts):
    """A SavedModel in TensorFlow with tensorflow-text."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    model = tf.saved_model.load(str(folder))
    answers = dict(model.signatures["serving_default"](text=tf.constant(texts)))
    if "pairs" in model.signatures:  # a model without segments has none
        pairs = model.signatures["pairs"](text=tf.constant(texts), second_text=tf.constant(texts[::-1]))
        answers |= {f"pair_{name}": value for name, value in pairs.items()}
    # Not UTF-8, and no texts at all.
    model.signatures["serving_default"](text=tf.constant([b"\xff\xfe word"]))
    arrays = {"input_ids": tf.constant([[2, 6, 7, 3]]), "token_type_ids": tf.zeros((1, 4), tf.int32)}
    ids = model.signatures["ids"](**{name: arrays[name] for name in model.signatures["ids"].structured_input_signature[1]})
    answers |= {f"ids_{name}": value for name, value in ids.items()}
    return {name: value.numpy().astype("S") if value.dtype == tf.string else value.numpy() for name, value in answers.items()}


def with_transformers(folder, texts):
    """A Hugging Face folder in transformers."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, config.architectures[0]).from_pretrained(folder, attn_implementation="eager").eval()
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(texts, truncation=True, padding=True, return_tensors="pt")
    with torch.inference_mode():
        answers = model(**encoded)
    arrays = {name: value.numpy() for name, value in answers.items() if hasattr(value, "numpy")}
    return {"labels": np.array(list(config.id2label.values())), **arrays}


RUNTIMES = {"tokenizers": with_tokenizers, "tensorflow": with_tensorflow, "transformers": with_transformers}

if __name__ == "__main__":
    runtime, folder, texts, output = sys.argv[1:]
    arrays = RUNTIMES[runtime](Path(folder), json.loads(Path(texts).read_text(encoding="utf-8")))
    # TensorFlow itself imports Keras.
    assert not [name for name in sys.modules if name.startswith("keras_bert" if runtime == "tensorflow" else "keras")]
    np.savez(output, **arrays)
