"""Export a model to any of the supported runtimes."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_bert_rebuild.export.evaluation import Evaluation, int8_quality
from keras_bert_rebuild.export.runtimes import SETTINGS, output_names
from keras_bert_rebuild.export.tokenizer_files import tokenizer_files_outside
from keras_bert_rebuild.files.folders import written_folder
from keras_bert_rebuild.files.kinds import EXPORT, TOKENIZER_NAMES, declared_names
from keras_bert_rebuild.files.output import check_folder, check_own
from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.models.heads import CRF
from keras_bert_rebuild.pretrained.save_pretrained import write_huggingface
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files
from keras_bert_rebuild.tasks.embedding_model import POOLINGS, embedding_model, longest_row
from keras_bert_rebuild.tasks.task import Task
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

FORMATS = ("saved_model", "onnx", "openvino", "openvino_int8", "huggingface")

# What the formats with an export.json write, besides that and files of the tokenizer.
WRITTEN = {
    "saved_model": ("saved_model.pb", "fingerprint.pb", "variables", "assets"),
    "onnx": ("model.onnx", "model.onnx.data"),
    "openvino": ("model.xml", "model.bin"),
    "openvino_int8": ("model.xml", "model.bin", "model_int8.xml", "model_int8.bin"),
}

# Rows of at most this many tokens lose most in int8; they use the float model of the folder.
SHORT_TOKENS = 8


def export(
    model: keras.Model | Task,
    tokenizer: BatchTokenizer | str | Path | None,
    path: str | os.PathLike[str],
    format: str = "saved_model",
    *,
    poolings: str | Sequence[str] = (),
    normalize: bool = False,
    max_len: int | None = None,
    texts: Sequence[str] | None = None,
    prompt: str | None = None,
    evaluation: Evaluation | None = None,
) -> Path:
    """Export a model to a runtime that works without this library.

    Args:
        model: from `from_pretrained` or `build_model`, with or without heads; or a task, such as a `SentenceEmbedder`, with its
            poolings, modules and prompts, or a `Reranker`, with its activation.
        tokenizer: the tokenizer or its path; None for that of the task.
        path: the folder to write, atomically. An earlier export is replaced, and other files in the folder are kept; a folder of
            another kind is refused.
        format: "saved_model" (TensorFlow: text in, outputs out), "onnx", "openvino", "openvino_int8" (in addition to float32;
            calibrated on `texts`) or "huggingface" (for `transformers`; no poolings). A `ConditionalRandomField` is not exported:
            the outputs are the logits of labels, and its transitions are in the settings of the folder, or, for Hugging Face,
            weights that transformers ignores.
        poolings: "cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken" or several, concatenated: how the vectors of
            tokens become the vector of a text. A task has its own.
        normalize: scale vectors to length 1.
        max_len: texts are truncated to this many tokens; None for the maximum of the task or model.
        texts: for "openvino_int8", some hundred texts like those the model will see; for a reranker a query, a tab and a text each.
        prompt: for tasks that return vectors: the name of a prompt, or a text to put before every text; None for the default.
        evaluation: a search that is run with float32 and int8, to record the loss of quality in export.json.

    Returns:
        The path of the folder.

    Raises:
        ValueError: an argument does not fit, the runtime does not support a layer, or a package is missing.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {format!r}.")
    if evaluation is not None and format != "openvino_int8":
        raise ValueError(f"evaluation is only for the format openvino_int8, whose loss it shows; got {format}.")
    poolings = (poolings,) if isinstance(poolings, str) else tuple(poolings)
    if not set(poolings) <= set(POOLINGS) or len(set(poolings)) < len(poolings):
        raise ValueError(f"poolings must be some of {', '.join(POOLINGS)}, each once; got {poolings}.")
    if format == "openvino_int8" and texts is None:
        raise ValueError("the format openvino_int8 needs texts for calibration; got None.")
    if format != "openvino_int8" and texts is not None:
        raise ValueError(f"texts for calibration are only for the format openvino_int8; got {format}.")
    task = model if isinstance(model, Task) else None
    of_task: dict[str, Any] = {}
    if task is not None:
        if poolings or normalize:
            raise ValueError(f"poolings must be left out for a {type(task).__name__}, which has its own.")
        tokenizer, max_len = tokenizer or task.tokenizer, max_len or task.max_len
        model, of_task = _model_of_task(task, format, prompt)
    elif prompt is not None or evaluation is not None:
        raise ValueError("prompt and evaluation need a task, such as a SentenceEmbedder; got a model.")
    tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
    if tokenizer is None:
        raise ValueError("exporting a model needs its tokenizer, or the path of one; got None.")
    longest = longest_row(model)
    max_len = longest if max_len is None else max_len
    if not 4 <= max_len <= longest:
        raise ValueError(f"max_len must be from 4 to {longest}, the maximum of the model; got {max_len}.")
    path = Path(path)
    if format == "huggingface":
        if poolings or normalize:
            raise ValueError("the format huggingface cannot have poolings: choose another format, or leave them out.")
        _write_huggingface(model, tokenizer, path, max_len)
        return path
    model, transitions = _without_random_field(model)
    # Before pooling, since a pooled model has no load report.
    files = tokenizer_files_outside(model if task is None else task.model, tokenizer, max_len)
    if poolings or normalize:
        model = embedding_model(model, poolings, normalize, any_length=True)
    check_folder(path, EXPORT)
    own = _own_names(path)
    check_own(path, [*WRITTEN[format], *files, SETTINGS], own, SETTINGS)
    with written_folder(path, replaced=own) as folder:
        _write(model, tokenizer, folder, format, max_len, texts, of_task)
        config = getattr(model, "config", None)
        settings = {
            "format": format,
            "max_len": max_len,
            "outputs": output_names(model),
            "labels": list(getattr(config, "labels", ())),
            "problem_type": getattr(config, "problem_type", None),
            **({} if transitions is None else {"transitions": transitions.tolist()}),
            **({"short_tokens": SHORT_TOKENS} if format == "openvino_int8" else {}),
            **of_task,
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        settings["files"] = sorted({*os.listdir(folder), SETTINGS})
        _write_settings(folder, settings)
        if texts is not None and of_task:
            _write_settings(folder, {**settings, "quality": int8_quality(folder, list(texts), evaluation)})
    return path


def _own_names(path):
    """The names in a folder that the export there wrote."""
    try:
        settings = json_object(path / SETTINGS)
    except (OSError, ValueError):
        return set()
    of_format = [*WRITTEN.get(str(settings.get("format")), ()), SETTINGS, *TOKENIZER_NAMES]  # of version 0.2
    names = settings.get("files", of_format if settings else ())
    return declared_names(names if isinstance(names, list) else (), EXPORT)


def _model_of_task(task, format, prompt):
    """The model of a task for a format, and the settings of the task for export.json, which only retrieval tasks have."""
    if format == "huggingface":
        return task.model_to_save(), {}
    if hasattr(task, "served"):
        return task.served(prompt)
    if prompt is not None:
        raise ValueError(f"prompt needs a task that returns vectors of texts; got {prompt!r:.80} for {task.kind}.")
    return task.model, {}


def _without_random_field(model):
    """A model that returns only the logits of labels, and the transitions of its `ConditionalRandomField`, or None."""
    layer = next((layer for layer in model.layers if layer.name == CRF), None)
    if layer is None or model.output_names != [CRF]:
        return model, None
    scores = type(model)(model.inputs, layer.input)
    scores.config = model.config.replace(crf=False)
    scores.load_report = getattr(model, "load_report", None)
    return scores, layer.transitions


def _write_huggingface(model, tokenizer, path, max_len):
    write_huggingface(model, path, vocabulary_files(tokenizer, max_len))


def _write_settings(folder, settings):
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write(model, tokenizer, folder, format, max_len, texts, of_task):
    if format == "saved_model":
        from keras_bert_rebuild.export.saved_model import write_saved_model

        write_saved_model(model, tokenizer, folder, max_len, of_task)
    elif format == "onnx":
        from keras_bert_rebuild.export.onnx_model import write_onnx

        write_onnx(model, folder / "model.onnx")
    elif format == "openvino":
        from keras_bert_rebuild.export.openvino import write_openvino

        write_openvino(model, folder)
    else:
        from keras_bert_rebuild.export.openvino import calibration_texts, write_openvino_int8

        write_openvino_int8(model, tokenizer, folder, max_len, calibration_texts(texts, of_task))
