"""Names of inputs, outputs and settings that other runtimes and servers of BERT expect, and the packages they need."""

import importlib
import sys

# The settings file in an exported folder.
SETTINGS = "export.json"

# Name of an input of the model to its exported name.
INPUTS = {
    "Input-Token": "input_ids",
    "Input-Segment": "token_type_ids",
    "Input-Task": "task_ids",
    "Input-Mask": "attention_mask",
}

# The positions in the loss, which do not affect outputs.
LEFT_OUT = "Input-Masked"

# Name of an output layer to the exported name of the output.
OUTPUTS = {
    "NSP-Dense": "pooler_output",
    "MLM": "token_probabilities",
    "NSP": "next_sentence_probabilities",
    "SOP": "sentence_order_probabilities",
    "Classification": "logits",
    "Token-Classification": "logits",
    "Question-Answering": "logits",
    "Multiple-Choice": "logits",
    "RTD": "logits",
    "Pool-NSP": "sentence_embedding",
    "Pool-Max": "sentence_embedding",
    "Pool-Ave": "sentence_embedding",
    "Pool-Root": "sentence_embedding",
    "Pool-Position": "sentence_embedding",
    "Pool-Last": "sentence_embedding",
    "Pool-Unit": "sentence_embedding",
    "Pool-Cut": "sentence_embedding",
    "Concatenate": "sentence_embedding",
    "Score": "score",
    "Pool-Vocabulary": "word_weights",
}

# Prefix of the names of modules for vectors.
OF_MODULES = "Sentence-"


def input_names(model):
    """The inputs of the exported model: name in the model to exported name.

    Raises:
        ValueError: the model has another input.
    """
    names = [tensor.name for tensor in model.inputs if tensor.name != LEFT_OUT]
    unknown = [name for name in names if name not in INPUTS]
    if unknown:
        raise ValueError(f"the inputs of a model to export must be some of {', '.join(INPUTS)}; got {', '.join(unknown)}.")
    return {name: INPUTS[name] for name in names}


def output_names(model):
    """The exported name of every output, in order and without repeats."""
    names = []
    for layer, tensor in zip(model.output_names, model.outputs, strict=True):
        name = OUTPUTS.get(layer)
        if layer.startswith(OF_MODULES):
            name = "sentence_embedding" if len(tensor.shape) == 2 else "token_embeddings"
        name = name or ("last_hidden_state" if len(tensor.shape) == 3 else layer.lower().replace("-", "_"))
        names.append(name if name not in names else layer.lower().replace("-", "_"))
    return names


# Extra of setup.cfg to its packages, for installation by name however this library was installed.
PACKAGES = {"onnx": "onnx", "openvino": "openvino nncf onnx"}


def needed_package(name, extra):
    """A module, imported by name; OpenVINO's without the telemetry that it and nncf send by default.

    Args:
        name: name of the module, such as "onnx".
        extra: the extra of setup.cfg that installs it.

    Raises:
        ValueError: it is not installed.
    """
    if extra == "openvino":  # both do without a package that cannot be imported; one that the user has imported stays
        sys.modules.setdefault("openvino_telemetry", None)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ValueError(f"this needs the package {name}, which is not installed: pip install {PACKAGES[extra]}.") from None
