"""Run texts through a SavedModel with TensorFlow and without this library: folder, texts, output file."""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

folder, texts, output = sys.argv[1:]
with open(texts, encoding="utf-8") as file:
    texts = json.load(file)
model = tf.saved_model.load(folder)
answers = dict(model.signatures["serving_default"](text=tf.constant(texts)))
if "pairs" in model.signatures:  # a model without segments has none
    pairs = model.signatures["pairs"](text=tf.constant(texts), second_text=tf.constant(texts[::-1]))
    answers |= {f"pair_{name}": value for name, value in pairs.items()}
# Not UTF-8, and no texts at all.
model.signatures["serving_default"](text=tf.constant([b"\xff\xfe word"]))
arrays = {"input_ids": tf.constant([[2, 6, 7, 3]]), "token_type_ids": tf.zeros((1, 4), tf.int32)}
ids = model.signatures["ids"](**{name: arrays[name] for name in model.signatures["ids"].structured_input_signature[1]})
answers |= {f"ids_{name}": value for name, value in ids.items()}
assert not [name for name in sys.modules if name.startswith("keras_bert")]
np.savez(
    output, **{name: value.numpy().astype("S") if value.dtype == tf.string else value.numpy() for name, value in answers.items()}
)
