"""How many files of the package a reader opens on the way from a call to what it leads to.

Counted are the files that the call enters until then, except those of layers on the way: who knows the paper knows what they do.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.small import compiled, small_batch, small_model

import keras_bert_rebuild
from keras_bert_rebuild import compile_model

pytestmark = pytest.mark.backend

PACKAGE = Path(keras_bert_rebuild.__file__).parent


def files_until(file, function, call):
    """The files that a call enters until it enters a function of this file."""
    entered, arrived = {}, []

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and not arrived and PACKAGE in path.parents:
            name = path.relative_to(PACKAGE).as_posix()
            entered[name] = None
            if name == file and frame.f_code.co_name == function:
                arrived.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    assert arrived
    return [name for name in entered if name == file or not name.startswith("layers/")]


def test_get_model_makes_attention_within_nine_files():
    files = files_until("layers/multi_head_self_attention.py", "__init__", small_model)
    assert len(files) <= 9, files


def test_compile_model_makes_its_losses_within_six_files():
    model = small_model()
    files = files_until("training/losses.py", "__init__", lambda: compile_model(model))
    assert len(files) <= 6, files


def test_fit_calls_the_first_layer_within_twelve_files(rng):
    """On TensorFlow within 21: there it first finds the blocks of the model, to run them without padding."""
    model = compiled(small_model(), run_eagerly=True)
    inputs, labels = (list(map(np.asarray, part)) for part in small_batch(rng))
    files = files_until("layers/token_embedding.py", "call", lambda: model.fit(inputs, labels, verbose=0))
    assert len(files) <= (21 if keras.config.backend() == "tensorflow" else 12), files
