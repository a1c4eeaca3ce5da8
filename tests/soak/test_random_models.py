"""Any valid model can be built, trained, saved in both formats and loaded, and gives the same outputs."""

import itertools
import os
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers.random_models import Case, cases
from hypothesis import given, seed, settings

from keras_bert_rebuild import AdamW, build_model, compile_model, from_pretrained, save_pretrained
from keras_bert_rebuild.models.heads import heads_of, without_implied

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
BATCH = 3

# Where every shape is compiled, fewer fit into the suite.
EXAMPLES = {"torch": 20, "tensorflow": 4, "jax": 2}


def batch(case, model):
    """Inputs for a model, with padding, in the order of its inputs."""
    rng = np.random.default_rng(case.seed)
    config, length = case.config, case.seq_len or int(rng.integers(2, case.config.max_length + 1))
    shape = (BATCH, length)
    given = {
        "Input-Token": rng.integers(0, config.vocab_size, shape),
        "Input-Segment": rng.integers(0, max(config.type_vocab_size, 1), shape),
        "Input-Task": rng.integers(0, max(config.num_tasks, 1), (BATCH, 1)),
        "Input-Mask": (rng.random(shape) < 0.8).astype(int),
        "Input-Masked": (rng.random(shape) < 0.3).astype(int),
    }
    given["Input-Token"][:, length - length // 3 :] = config.pad_token_id
    return tuple(given[tensor.name] for tensor in model.inputs)


def answers(model, x):
    outputs = model(x if len(x) > 1 else x[0], training=False)
    return [keras.ops.convert_to_numpy(output) for output in keras.tree.flatten(outputs)]


def train_a_step(model, x, run_eagerly):
    """A step with the pretraining losses if the model has no other heads, and with a squared loss if it has."""
    rng = np.random.default_rng(0)
    outputs, optimizer = answers(model, x), AdamW(1e-3)
    x = x if len(x) > 1 else x[0]
    if "MLM" in model.output_names and set(model.output_names) <= {"MLM", "NSP", "SOP"}:
        compile_model(model, optimizer=optimizer, run_eagerly=run_eagerly)
        y = tuple(rng.integers(0, output.shape[-1], (*output.shape[:-1], 1)) for output in outputs)
    else:
        model.compile(optimizer, loss=["mean_squared_error"] * len(outputs), run_eagerly=run_eagerly)
        y = tuple(rng.integers(0, 2, output.shape) for output in outputs)
    loss = np.ravel(model.train_on_batch(x, y if len(y) > 1 else y[0]))[0]
    assert np.isfinite(loss)
    assert int(optimizer.iterations) == 1


def check(case: Case, run_eagerly=True):
    keras.backend.clear_session()
    keras.utils.set_random_seed(case.seed)
    model = build_model(case.config, case.heads, seq_len=case.seq_len, padding_mask=case.padding_mask)
    assert model.count_params() == case.config.num_params(case.heads)
    x = batch(case, model)
    train_a_step(model, x, run_eagerly)
    before = answers(model, x)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.keras"))
        loaded = [keras.saving.load_model(Path(folder, "model.keras"))]
        if not case.in_own_format:
            save_pretrained(model, Path(folder, "huggingface"))
            loaded.append(from_pretrained(Path(folder, "huggingface")))
    for again in loaded:
        # The labels of a folder with a question answering head are not read: they would mean outputs.
        labels = again.config.labels if "question_answering" in case.heads else case.config.labels
        # A folder of ALBERT or DistilBERT always has the dropout rate before a head.
        rate, own = again.config.classifier_dropout, case.config.classifier_dropout
        assert rate == own or (own is None and rate == case.config.hidden_dropout_prob)
        assert again.config == case.config.replace(labels=labels, classifier_dropout=rate)
        assert heads_of(again) == without_implied(case.heads)
        for one, other in zip(before, answers(again, x), strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow(torch=True)
@settings(max_examples=EXAMPLES[keras.backend.backend()])
@given(cases())
def test_a_random_model_gives_the_same_outputs_when_it_is_loaded(case):
    check(case)


@pytest.mark.skipif("SOAK_MINUTES" not in os.environ, reason="takes SOAK_MINUTES")
@pytest.mark.timeout(0)
def test_random_models_without_end():
    end, count = time.monotonic() + 60 * MINUTES, 0

    def check_one(case):
        nonlocal count
        count += 1
        check(case, run_eagerly=False)

    for number in itertools.count(int(time.time())):
        seed(number)(settings(max_examples=50, derandomize=False, database=None)(given(cases())(check_one)))()
        print(f"\nseed {number}: {count:,} models so far", end="", flush=True)
        if time.monotonic() > end:
            return
