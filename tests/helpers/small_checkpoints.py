"""Checkpoints with random weights in the layouts of Google's BERT and of Keras 2, where users saved their own head on BERT."""

import copy
import json
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_bert_rebuild import get_base_dict, get_model, save_pretrained

WORDS = [*"abcdefghijklmnopqrstuvwxyz", *"0123456789", ",", ".", "语", "言", "模", "型", "all", "work", "play", "##s", "##ed"]


def write_toy_checkpoint(folder, seed=7):
    """Write bert_config.json, bert_model.ckpt and vocab.txt; returns the dictionary from token to id."""
    token_dict = {token or "[PAD]": i for token, i in get_base_dict().items()}
    for word in ["[unused1]", *WORDS]:
        token_dict[word] = len(token_dict)
    keras.utils.set_random_seed(seed)
    model = get_model(
        token_num=len(token_dict), pos_num=32, seq_len=32, embed_dim=24, transformer_num=2, head_num=3, feed_forward_dim=48
    )
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        if variable.path.endswith(("kernel", "embeddings")):
            variable.assign(rng.normal(0, 0.2, variable.shape).astype("float32"))
    save_pretrained(model, folder, "google", vocabulary=token_dict)
    return token_dict


GOLDEN = Path(__file__).parents[1] / "golden" / "keras_bert" / "model.h5"
HEAD = "my_output"
CLASSES = 3

# The layers of the model in the golden file that a classifier leaves out.
NOT_USED = ("MLM-Dense", "MLM-Norm", "MLM-Sim", "MLM", "Input-Masked", "NSP")


def write_classifier(path, *, nested=False, model_class="Functional", extra=None, optimizer=None):
    """Write the golden encoder and pooler with a dense layer of three classes on top, in the layout of Keras 2.

    Args:
        path: the file.
        nested: BERT is a layer `model_1` of the outer model.
        model_class: what Keras calls a functional model; "Model" before 2.3.
        extra: further weights inside the nested model, `{name: array}`.
        optimizer: None, or "AdamWarmup" or "Adam" with as many state arrays as keras_bert's has.

    Returns:
        The kernel and the bias of the head.
    """
    rng = np.random.default_rng(2)
    kernel, bias = rng.normal(size=(8, CLASSES)).astype("float32"), rng.normal(size=CLASSES).astype("float32")
    with h5py.File(GOLDEN) as golden, h5py.File(path, "w") as file:
        config = json.loads(golden.attrs["model_config"])
        layers = [layer for layer in config["config"]["layers"] if layer["name"] not in NOT_USED]
        inputs = [["Input-Token", 0, 0], ["Input-Segment", 0, 0]]
        bert = {"name": "model_1", "layers": layers, "input_layers": inputs, "output_layers": [["NSP-Dense", 0, 0]]}
        head = {"class_name": "Dense", "name": HEAD, "config": {"name": HEAD, "units": CLASSES, "activation": "softmax"}}
        if nested:
            outer = [copy.deepcopy(layer) for layer in layers if layer["class_name"] == "InputLayer"]
            asked = [[name, 0, 0, {}] for name, _, _ in inputs]
            outer.append({"class_name": model_class, "name": "model_1", "config": bert, "inbound_nodes": [asked]})
            outer.append({**head, "inbound_nodes": [[["model_1", 1, 0, {}]]]})
        else:
            outer = [*layers, {**head, "inbound_nodes": [[["NSP-Dense", 0, 0, {}]]]}]
        values = {"name": "model_2", "layers": outer, "input_layers": inputs, "output_layers": [[HEAD, 0, 0]]}
        file.attrs["model_config"] = json.dumps({"class_name": model_class, "config": values})
        file.attrs["keras_version"], file.attrs["backend"] = "2.15.0", "tensorflow"
        weights = {}
        for layer in layers:
            group = golden["model_weights"][layer["name"]]
            weights[layer["name"]] = {name: np.asarray(group[name]) for name in group.attrs["weight_names"]}
        of_head = {f"{HEAD}/kernel:0": kernel, f"{HEAD}/bias:0": bias}
        if nested:
            inside = {name: array for of_layer in weights.values() for name, array in of_layer.items()} | (extra or {})
            weights = {"Input-Token": {}, "Input-Segment": {}, "model_1": inside, HEAD: of_head}
        else:
            weights[HEAD] = of_head
        _write_groups(file.create_group("model_weights"), weights)
        if optimizer is not None:
            _write_optimizer(file, optimizer, [array for of_layer in weights.values() for array in of_layer.values()])
    return kernel, bias


def _write_groups(group, weights):
    group.attrs["layer_names"] = [name.encode() for name in weights]
    for layer, arrays in weights.items():
        of_layer = group.create_group(layer)
        of_layer.attrs["weight_names"] = [_text(name) for name in arrays]
        for name, array in arrays.items():
            of_layer.create_dataset(_text(name).decode(), data=array)


def _text(name):
    return name if isinstance(name, bytes) else name.encode()


def _write_optimizer(file, kind, arrays):
    """The training config, and the state as keras_bert's `AdamWarmup` has it: iterations, all first and all second moments."""
    config = {"name": kind, "lr": 1e-3} if kind == "Adam" else {
        "name": "AdamWarmup", "learning_rate": 1e-3, "decay_steps": 1000, "warmup_steps": 100, "min_lr": 1e-5, "beta_1": 0.9,
        "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": 0.01, "amsgrad": False,
    }  # fmt: skip
    file.attrs["training_config"] = json.dumps(
        {
            "loss": "sparse_categorical_crossentropy",
            "metrics": None,
            "weighted_metrics": None,
            "loss_weights": None,
            "optimizer_config": {"class_name": kind, "config": config},
        }
    )
    state = {"training/AdamWarmup/iter:0": np.array(57, "int64")}
    for moment, value in (("m", 0.5), ("v", 0.25)):
        state |= {f"training/AdamWarmup/{i}/{moment}:0": np.full(array.shape, value, "float32") for i, array in enumerate(arrays)}
    group = file.create_group("optimizer_weights")
    group.attrs["weight_names"] = [name.encode() for name in state]
    for name, array in state.items():
        group.create_dataset(name, data=array)
