"""An exported OpenVINO folder as a function of rows."""

from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.model_inputs import model_inputs, padded
from keras_bert_rebuild.export.export_model import SETTINGS
from keras_bert_rebuild.export.names_outside import INPUTS
from keras_bert_rebuild.export.needed_package import needed_package
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

PRECISIONS = ("f32", "bf16")


class OpenVINORunner:
    """Run the model of a folder on rows; short rows of an int8 folder go through its float model, in bfloat16.

    Args:
        folder: as from `export` in the format openvino or openvino_int8.
        precision: "f32" or "bf16", the precision of a float model. OpenVINO's own default is bf16 if the CPU supports it.

    Raises:
        ValueError: the folder does not exist, or the package openvino is not installed.
    """

    def __init__(self, folder, precision="f32"):
        folder = Path(folder)
        openvino = needed_package("openvino", "openvino")
        self.settings = read_json(folder / SETTINGS, "the settings of an exported model")
        if not self.settings.get("format", "").startswith("openvino"):
            raise ValueError(f"{folder} must hold a model for OpenVINO; {SETTINGS} says {self.settings.get('format')!r}.")
        if precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}.")
        self.max_len = self.settings["max_len"]
        self.short_tokens = self.settings.get("short_tokens", 0)
        self.tokenizer = load_tokenizer(folder)
        core = openvino.Core()
        hint = "bf16" if self.short_tokens else precision
        # A CPU without bfloat16 uses float32.
        self.float = core.compile_model(folder / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": hint})
        self.int8 = core.compile_model(folder / "model_int8.xml", "CPU") if self.short_tokens else self.float
        self.inputs = [tensor.any_name for tensor in self.float.inputs]
        self.gives_vectors = self.float.outputs[0].partial_shape.rank.get_length() == 2

    def __call__(self, rows, length):
        """The first output for rows `(ids, segments)`, padded to the longest row.

        Args:
            rows: the rows.
            length: not used: the runtime does not compile for each shape, so rows are padded no further than necessary.
        """
        length = max(len(ids) for ids, _ in rows)
        inside = {outside: name for name, outside in INPUTS.items()}
        names = [name for name in self.inputs if name != "task_ids"]
        columns = model_inputs([inside[name] for name in names], *zip(*rows, strict=True), self.tokenizer.pad_id)
        given = {name: padded(column, length, pad, "int64") for name, column, pad in zip(names, *columns, strict=True)}
        given |= {name: np.zeros((len(rows), 1), "int64") for name in self.inputs if name not in given}
        compiled = self.float if length <= self.short_tokens else self.int8
        # The next inference writes into the same memory.
        return compiled(given)[0].copy()
