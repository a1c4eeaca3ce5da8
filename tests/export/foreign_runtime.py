"""Run texts through an ONNX or OpenVINO folder without this library: folder, texts, output file."""

import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer

folder, texts, output = sys.argv[1:]
with open(texts, encoding="utf-8") as file:
    texts = json.load(file)
encoded = Tokenizer.from_file(os.path.join(folder, "tokenizer.json")).encode_batch(texts)
columns = {
    "input_ids": np.array([row.ids for row in encoded]),
    "token_type_ids": np.array([row.type_ids for row in encoded]),
    "attention_mask": np.array([row.attention_mask for row in encoded]),
}
if os.path.exists(os.path.join(folder, "model.onnx")):
    import onnxruntime

    session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"))
    names = [tensor.name for tensor in session.get_outputs()]
    values = session.run(names, {tensor.name: columns[tensor.name] for tensor in session.get_inputs()})
else:
    import openvino

    model = openvino.compile_model(os.path.join(folder, "model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = model({tensor.any_name: columns[tensor.any_name] for tensor in model.inputs})
    with open(os.path.join(folder, "export.json"), encoding="utf-8") as file:
        names = json.load(file)["outputs"]
    values = [results[name] for name in names]
assert not [name for name in sys.modules if name.startswith("keras")]
np.savez(output, input_ids=columns["input_ids"], **dict(zip(names, values, strict=True)))
