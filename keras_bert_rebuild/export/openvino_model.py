"""A model as OpenVINO's files, in float32 or in int8 calibrated on texts."""

import logging
import random
import tempfile
from pathlib import Path

import numpy as np

from keras_bert_rebuild.export.needed_package import needed_package
from keras_bert_rebuild.export.onnx_model import write_onnx

# Texts for calibration; every second one is short, since vectors of short texts lose most.
COUNT = 300
SHORT_TOKENS = 12


def calibration_rows(tokenizer, texts, max_len, count=COUNT, seed=0):
    """Rows of ids for calibration, each of its own length.

    Args:
        tokenizer: that of the model.
        texts: texts as the model will see them, a list.
        max_len: maximum tokens of a row.
        count: rows to return: half of them from any text, half with at most `SHORT_TOKENS` tokens; if there are not enough short
            texts, longer ones are cut.
        seed: of the random choice.

    Returns:
        An `Encoding` whose fields are lists of arrays.

    Raises:
        ValueError: there are fewer than two texts.
    """
    texts = [text for text in texts if text.strip()]
    if len(texts) < 2:
        raise ValueError(f"calibration needs some hundred texts as the model will see them; got {len(texts)}.")
    draw = random.Random(seed)
    chosen = draw.sample(texts, min(len(texts), 20 * count))
    usual, others = chosen[: count // 2], chosen[count // 2 :] or chosen
    lengths = [len(ids) for ids in tokenizer.encode_batch(others).ids]
    short = [text for text, length in zip(others, lengths, strict=True) if length <= SHORT_TOKENS]
    short = short[: count // 2]
    cut = others[: count // 2 - len(short)]
    rows = tokenizer.encode_batch(usual, max_len=max_len)
    for more in (tokenizer.encode_batch(part, max_len=SHORT_TOKENS) for part in (short, cut) if part):
        rows.ids += more.ids
        rows.segments += more.segments
    return rows


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
