"""A model as OpenVINO's files, in float32 and in int8."""

import logging
import tempfile
from pathlib import Path

import numpy as np

from keras_bert_rebuild.export.calibration import calibration_rows
from keras_bert_rebuild.export.needed_package import needed_package
from keras_bert_rebuild.export.onnx_model import write_onnx


def write_openvino(model, folder):
    """Write `model.xml` and `model.bin`, with weights in float32."""
    openvino = needed_package("openvino", "openvino")
    openvino.save_model(_converted(openvino, model), folder / "model.xml", compress_to_fp16=False)


def write_openvino_int8(model, tokenizer, folder, max_len, texts):
    """Also write `model_int8.xml`, with weights and activations in 8 bits.

    The recipe: nncf with the transformer model type and the mixed preset (asymmetric activations), calibrated on the user's texts,
    half of them short.

    Args:
        model: a model of this library.
        tokenizer: its tokenizer.
        folder: where to write.
        max_len: maximum tokens of a row.
        texts: some hundred texts as the model will see them.
    """
    openvino = needed_package("openvino", "openvino")
    nncf = needed_package("nncf", "openvino")
    nncf.set_log_level(logging.WARNING)
    converted = _converted(openvino, model)
    openvino.save_model(converted, folder / "model.xml", compress_to_fp16=False)
    rows = calibration_rows(tokenizer, texts, max_len)
    names = {tensor.any_name for tensor in converted.inputs}
    examples = [_example(names, ids, segments) for ids, segments in zip(rows.ids, rows.segments, strict=True)]
    small = nncf.quantize(
        converted,
        nncf.Dataset(examples),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=len(examples),
    )
    openvino.save_model(small, folder / "model_int8.xml")


def _converted(openvino, model):
    # Through a file, since a model in memory must be smaller than 2 GB.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(model, path)
        return openvino.convert_model(path)


def _example(names, ids, segments):
    columns = {"input_ids": ids, "token_type_ids": segments, "attention_mask": np.ones_like(ids), "task_ids": ids[:1] * 0}
    return {name: column[None].astype("int64") for name, column in columns.items() if name in names}
