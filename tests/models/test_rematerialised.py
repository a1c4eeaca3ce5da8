"""Rematerialised encoder blocks: the same steps, models and files."""

import functools

import keras
import numpy as np
import pytest
from helpers.small import LENGTH, VOCAB, compiled, small_batch, small_model, spread

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.models.encoder_blocks import Context, run_block
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.rematerialised import rematerialised

pytestmark = pytest.mark.backend

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": LENGTH + 2,
}
FAMILIES = {
    "bert": ({"attention_probs_dropout_prob": 0.1, "labels": ("a", "b")}, ("mlm", "nsp", "classification")),
    "albert": ({"family": "albert", "num_hidden_layers": 2, "num_hidden_groups": 1, "embedding_size": 8}, ("mlm", "sop")),
    "roberta": ({"family": "roberta", "type_vocab_size": 0, "pad_token_id": 1, "position_offset": 2}, ("mlm",)),
    "no blocks": ({"num_hidden_layers": 0}, ("mlm",)),
}


def family_batch(config, model, rng):
    (ids, segments, chosen), (labels, pair) = small_batch(rng)
    ids[ids == 0] = config.pad_token_id
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": chosen}
    x = tuple(given[tensor.name] for tensor in model.inputs)
    return x, {head: labels if head == "MLM" else pair for head in model.output_names}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_with_dropout_is_the_step_without_it(family, rng):
    changes, heads = FAMILIES[family]
    config = BertConfig(**{**SMALL, **changes})
    weights, results = None, []
    for remat in (False, True):
        keras.utils.set_random_seed(3)  # the same seeds of dropout
        model = build_model(config, heads, seq_len=LENGTH)
        weights = weights or spread(model, rng).get_weights()
        model.set_weights(weights)
        compiled(model, max_predictions=4, remat=remat, optimizer=keras.optimizers.SGD(1.0), metrics=None)
        x, y = family_batch(config, model, np.random.default_rng(5))
        loss = model.train_on_batch(x, y)
        results.append((float(np.ravel(loss)[0]), model.get_weights(), seeds_of(model)))
    (loss, plain, seeds), (remat_loss, with_remat, remat_seeds) = results
    assert remat_loss == pytest.approx(loss, rel=1e-6)
    for one, other in zip(plain, with_remat, strict=True):
        np.testing.assert_allclose(other, one, atol=2e-6)
    np.testing.assert_array_equal(remat_seeds, seeds)


def seeds_of(model):
    return [keras.ops.convert_to_numpy(v).astype("int64") for v in model.variables if v.name == "seed_generator_state"]


@pytest.mark.slow
def test_dropout_seeds_advance_as_without_rematerialisation(rng):
    (block,) = EncoderView(small_model(dropout_rate=0.5, transformer_num=1)).blocks
    layers = block.layers
    x = keras.ops.convert_to_tensor(rng.normal(size=(2, LENGTH, 16)).astype("float32"))
    mask = keras.ops.ones((2, LENGTH), "bool")
    states = [v for layer in layers for v in layer.variables if v.name == "seed_generator_state"]
    before = [keras.ops.convert_to_numpy(state).copy() for state in states]
    runs = []
    run = functools.partial(run_block, block, context=Context(mask=mask, training=True))
    for function in (run, rematerialised(layers, run)):
        keras.utils.set_random_seed(1)
        for state, value in zip(states, before, strict=True):
            state.assign(value)
        runs.append([keras.ops.convert_to_numpy(function(x)) for _ in range(2)])
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-6)
    assert np.abs(runs[0][0] - runs[0][1]).max() > 0.1


def test_shared_blocks_run_once_per_layer():
    config = BertConfig(**{**SMALL, "num_hidden_layers": 4}, family="albert", num_hidden_groups=2, embedding_size=8)
    names = [block.attention.name for block in EncoderView(build_model(config, ("mlm",))).blocks]
    assert names == [f"Encoder-{number}-MultiHeadSelfAttention" for number in (1, 1, 2, 2)]


@pytest.mark.slow
def test_layers_paths_and_outputs_do_not_change(rng, tmp_path):
    x, y = small_batch(rng)
    model = small_model(transformer_num=1)
    rows = summary(model)
    compiled(model, max_predictions=4, loss_chunk=9, remat=True)
    model.train_on_batch(x, y)
    assert summary(model) == rows
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.remat
    assert again.loss[0].chunk == 9
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    for one, other in zip(model.predict(x, verbose=0), again.predict(x, verbose=0), strict=True):
        np.testing.assert_array_equal(one, other)


def summary(model):
    rows = []
    model.summary(print_fn=lambda row, **_: rows.append(row))
    return "".join(rows).split("Total params")[0]  # the lines after that count the optimizer


def test_files_of_other_models_do_not_mention_rematerialisation():
    assert "remat" not in small_model(transformer_num=1).get_config()


def test_a_model_without_a_config_is_an_error():
    model = small_model(transformer_num=1)
    model.config = None
    with pytest.raises(ValueError, match="expected a model with a config, from get_model"):
        compiled(model, remat=True)
