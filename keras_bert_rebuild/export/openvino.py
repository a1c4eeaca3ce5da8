"""OpenVINO models in float32, or in int8 calibrated on texts, and an exported folder as a function of rows.

Vectors of short texts lose most in int8, so half of the texts for calibration are short.
"""

import logging
import random
import tempfile
from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.batches import model_inputs, padded
from keras_bert_rebuild.export.onnx_model import write_onnx
from keras_bert_rebuild.export.runtimes import INPUTS, SETTINGS, needed_package
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.tasks.embedder import prompt_text
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer


def write_openvino(model, folder):
    """Write `model.xml` and `model.bin` with float32 weights."""
    openvino = needed_package("openvino", "openvino")
    openvino.save_model(_converted(openvino, model), folder / "model.xml", compress_to_fp16=False)


def write_openvino_int8(model, tokenizer, folder, max_len, texts):
    """Also write `model_int8.xml` with int8 weights and activations.

    Uses nncf with the transformer model type and the mixed preset (asymmetric activations), calibrated on the user's texts, half of
    them short. Weights have 7 of the 8 bits, since sums of products of 8 bits overflow on processors without VNNI (AVX2).

    Args:
        model: a model of this library.
        tokenizer: its tokenizer.
        folder: the folder to write to.
        max_len: maximum number of tokens of a row.
        texts: some hundred texts, or pairs of texts, like those the model will see.
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
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
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


PRECISIONS = ("f32", "bf16")


class OpenVINORunner:
    """Runs the model of a folder on rows; in an int8 folder, short rows use the float model in bfloat16.

    Args:
        folder: written by `export` with openvino or openvino_int8.
        precision: "f32" or "bf16", the precision of float models. OpenVINO's default is bf16 if the CPU supports it.
        int8: whether to use the int8 model, if there is one.

    Raises:
        ValueError: the folder does not exist, or the package openvino is missing.
    """

    def __init__(self, folder, precision="f32", int8=True):
        folder = Path(folder)
        openvino = needed_package("openvino", "openvino")
        self.settings = read_json(folder / SETTINGS, "the settings of an exported model")
        if not self.settings.get("format", "").startswith("openvino"):
            raise ValueError(f"{folder} must have a model for OpenVINO; {SETTINGS} says {self.settings.get('format')!r}.")
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}.")
        self.folder, self.max_len = folder, self.settings["max_len"]
        self.short_tokens = self.settings.get("short_tokens", 0) if int8 else 0
        self.tokenizer = load_tokenizer(folder)
        core = openvino.Core()
        hint = "bf16" if self.short_tokens else precision
        # On a CPU without bfloat16, float32 is used.
        self.float = core.compile_model(folder / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": hint})
        self.int8 = core.compile_model(folder / "model_int8.xml", "CPU") if self.short_tokens else self.float
        self.inputs = [tensor.any_name for tensor in self.float.inputs]
        is_vector = self.float.outputs[0].partial_shape.rank.get_length() == 2
        self.gives_vectors = is_vector and self.settings.get("kind", "embedding") == "embedding"

    def prompt(self, prompt=None):
        """The text put before every text.

        Args:
            prompt: see `SentenceEmbedder.prompt_text`. None for the prompt that the model was exported with.

        Raises:
            ValueError: no prompt has the name, or the prompt is not pooled, so only texts with the exported prompt are supported.
        """
        own, prompts = self.settings.get("prompt", ""), self.settings.get("prompts")
        text = own if prompt is None else prompt if prompts == {} else prompt_text(prompts or {}, prompt)
        if text != own and prompts == {}:
            raise ValueError(f"prompt must be None or the exported {own!r:.80}, which is not pooled; got {prompt!r:.80}.")
        return text

    def __call__(self, rows, length):
        """The first output for rows `(ids, segments)`, padded to the longest row.

        Args:
            rows: the rows; if the model has an `attention_mask`, the third item of each row is its mask.
            length: ignored: shapes are not compiled, so rows are padded no further than necessary.
        """
        length = max(len(row[0]) for row in rows)
        ids, segments, *masks = zip(*rows, strict=True)
        inside = {outside: name for name, outside in INPUTS.items()}
        names = [name for name in self.inputs if name != "task_ids"]
        values, padding = model_inputs([inside[name] for name in names], ids, segments, self.tokenizer.pad_id)
        values = [masks[0] if masks and name == "attention_mask" else column for name, column in zip(names, values, strict=True)]
        columns = {name: padded(column, length, pad, "int64") for name, column, pad in zip(names, values, padding, strict=True)}
        columns |= {name: np.zeros((len(rows), 1), "int64") for name in self.inputs if name not in columns}
        compiled = self.float if length <= self.short_tokens else self.int8
        # A copy, since the next inference writes to the same memory.
        return compiled(columns)[0].copy()


# Number of texts for calibration, and the most tokens of a short one.
COUNT = 300
SHORT_TOKENS = 12


def calibration_texts(texts, of_task):
    """Texts in the form in which the model sees them: with the prompt of the task, or as pairs of a query and a text.

    Args:
        texts: a list of texts; for a reranker, of a query, a tab and a text each.
        of_task: the settings of the task in export.json.

    Raises:
        ValueError: a line for a reranker is not such a pair.
    """
    if of_task.get("kind") != "reranking":
        return [of_task.get("prompt", "") + text for text in texts]
    lines = [text for text in texts if text.strip()]
    wrong = next((line for line in lines if line.count("\t") != 1), None)
    if wrong is not None:
        raise ValueError(f"calibration of a reranker needs a query, a tab and a text on every line; got {wrong!r:.80}.")
    return [tuple(line.split("\t")) for line in lines]


def calibration_rows(tokenizer, texts, max_len, count=COUNT, seed=0):
    """Unpadded rows of ids for calibration.

    Args:
        tokenizer: the tokenizer of the model.
        texts: a list of texts, or pairs of texts, representative of the model's inputs.
        max_len: maximum number of tokens of a row.
        count: number of rows: half from any text, half with at most `SHORT_TOKENS` tokens; if there are too few short texts, longer
            ones are truncated. Pairs of texts are used as they are.
        seed: seed of the random sample.

    Returns:
        An `Encoding` whose fields are lists of arrays.

    Raises:
        ValueError: there are fewer than two texts.
    """
    texts = [text for text in texts if not isinstance(text, str) or text.strip()]
    if len(texts) < 2:
        raise ValueError(f"calibration needs some hundred texts like those the model will see; got {len(texts)}.")
    draw = random.Random(seed)
    sample = draw.sample(texts, min(len(texts), 20 * count))
    if not isinstance(texts[0], str):
        return tokenizer.encode_batch(*zip(*sample[:count], strict=True), max_len=max_len)
    usual, rest = sample[: count // 2], sample[count // 2 :] or sample
    lengths = [len(ids) for ids in tokenizer.encode_batch(rest).ids]
    short = [text for text, length in zip(rest, lengths, strict=True) if length <= SHORT_TOKENS]
    short = short[: count // 2]
    cut = rest[: count // 2 - len(short)]
    rows = tokenizer.encode_batch(usual, max_len=max_len)
    for more in (tokenizer.encode_batch(part, max_len=SHORT_TOKENS) for part in (short, cut) if part):
        rows.ids += more.ids
        rows.segments += more.segments
    return rows
