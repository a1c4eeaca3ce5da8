"""Any valid model can be built, trained, saved in both formats and loaded, and gives the same outputs."""

import itertools
import os
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path

import hypothesis.strategies as st
import keras
import numpy as np
import pytest
from hypothesis import given, seed, settings

from keras_bert_rebuild import AdamW, BertConfig, build_model, compile_model, from_pretrained, save_pretrained
from keras_bert_rebuild.config import CONFIG_CLASSES, HEADS
from keras_bert_rebuild.families import CLASSES, FAMILIES, derived
from keras_bert_rebuild.families import own as optional
from keras_bert_rebuild.models.heads import heads_of, without_implied

RATES = st.sampled_from((0.0, 0.1, 0.5))
ACTIVATIONS = st.sampled_from(("gelu", "gelu_erf", "quick_gelu", "relu", "relu6", "silu", "tanh", "sigmoid", "mish", "linear"))

# The fields that a Hugging Face file has for every family, without the sizes that depend on each other.
FIELDS = {
    "vocab_size": st.integers(5, 40),
    "num_hidden_layers": st.integers(0, 2),
    "intermediate_size": st.integers(1, 9),
    "hidden_act": ACTIVATIONS,
    "hidden_dropout_prob": RATES,
    "attention_probs_dropout_prob": RATES,
    "classifier_dropout": st.none() | RATES,
    "max_position_embeddings": st.integers(9, 20),
    "type_vocab_size": st.integers(1, 3),
    "initializer_range": st.sampled_from((0.02, 0.5)),
    "layer_norm_eps": st.sampled_from((1e-12, 1e-5, 1e-3)),
    "pad_token_id": st.integers(0, 3),
    "embedding_size": st.integers(1, 6),
}

# The fields that only our own files have.
OWN_FIELDS = {
    "embedding_size": st.none() | st.integers(1, 6),
    "initializer_range": st.none() | st.sampled_from((0.02, 0.5)),
    "type_vocab_size": st.integers(0, 3),
    "position_offset": st.integers(0, 4),
    "num_tasks": st.integers(0, 2),
    "adapter_size": st.integers(0, 2),
    "mlm_act": st.none() | ACTIVATIONS,
    "pooler_act": st.none() | ACTIVATIONS,
    "attention_act": st.none() | ACTIVATIONS,
    "dropout_before_pooler": st.booleans(),
}


@dataclass
class Case:
    """A model to build, and what to do with it."""

    config: BertConfig
    heads: tuple
    in_own_format: bool
    seq_len: int | None
    padding_mask: bool
    seed: int


@st.composite
def cases(draw):
    """A `Case`."""
    family = draw(st.sampled_from(sorted(set(FAMILIES) - set(CONFIG_CLASSES))))
    module, own = FAMILIES[family], draw(st.booleans())
    said = {field for field, _ in module.CONFIG}
    if own:
        values = {name: draw(strategy) for name, strategy in (FIELDS | OWN_FIELDS).items()}
    else:
        values = {**optional(module, "DEFAULTS"), **{name: draw(strategy) for name, strategy in FIELDS.items() if name in said}}
    heads = values["num_attention_heads"] = draw(st.integers(1, 3))
    values["hidden_size"] = heads * draw(st.integers(1, 4))
    values["labels"] = tuple(f"label {i}" for i in range(draw(st.integers(1, 3))))
    classes = [heads for heads, _ in CLASSES if set(heads) <= set(module.HUGGINGFACE.heads)]
    chosen = draw(st.sets(st.sampled_from(HEADS)) if own else st.sampled_from(classes))
    if not chosen:  # then the output is the one of a block
        values["num_hidden_layers"] = max(values["num_hidden_layers"], 1)
    if own or "num_hidden_groups" in said:
        divisors = [n for n in (1, 2) if values["num_hidden_layers"] % n == 0]
        values["num_hidden_groups"] = draw(st.sampled_from([None, *divisors] if own else divisors))
    config = BertConfig(family=family, **values)
    if heads > 1:
        config = config.replace(pruned_heads=draw(st.dictionaries(*_pruned(config.num_distinct_blocks, heads))))
    if not own:
        config = derived(config)
    return Case(
        config,
        tuple(head for head in HEADS if head in chosen),
        own,
        draw(st.none() | st.integers(3, config.max_length)),
        own and draw(st.booleans()),
        draw(st.integers(0, 2**31 - 1)),
    )


def _pruned(blocks, heads):
    """Strategies for keys and values of `pruned_heads`: numbers of blocks, and of some heads but not all."""
    chosen = st.lists(st.integers(0, heads - 1), min_size=1, max_size=heads - 1, unique=True)
    return (st.sampled_from(range(blocks)) if blocks else st.nothing()), chosen


UNDRAWN = {"crf", "family", "hidden_size", "num_attention_heads", "num_hidden_groups", "labels", "problem_type", "pruned_heads"}
assert set(FIELDS) | set(OWN_FIELDS) | UNDRAWN == {field.name for field in fields(BertConfig)}


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
