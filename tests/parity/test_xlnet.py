"""XLNet and its two streams are those of transformers."""

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from agreement import assert_gradients_agree, assert_states_and_maps_agree, step
from helpers.small import answers
from helpers.small_corpus import small_corpus

from keras_bert_rebuild import compile_model, from_pretrained, save_pretrained
from keras_bert_rebuild.models.permutation_model import build_permutation_model, hidden_by, run_two_streams, run_with_memories
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

# Distances that end before the text and after it, other heads and depths, other activations, every kind of memory.
SETTINGS = (
    {"clamp_len": 1},
    {"clamp_len": 5},
    {"clamp_len": 300},
    {"n_layer": 1},
    {"n_head": 1, "d_inner": 7},
    {"n_head": 6, "ff_activation": "relu"},
    {"d_model": 6, "ff_activation": "silu"},
    {"layer_norm_eps": 0.1, "pad_token_id": 0},
    {"mem_len": None, "reuse_len": 3, "use_mems_eval": False},
)

settings = pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(changes))


def right_padded(rows, real):
    """The rows with their padding behind."""
    return np.stack([np.concatenate([row[own], row[~own]]) for row, own in zip(rows, real, strict=True)])


@settings
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_hidden_state_and_map_agrees(changes, side, tmp_path):
    theirs = cases.random_model("XLNet", "Model", {**cases.XLNET, **changes})
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    if side == "right":
        ids, segments, real = (right_padded(rows, real) for rows in (ids, segments, real))
    assert_states_and_maps_agree(theirs, ours, ids, segments)


def test_segments_that_are_not_given_are_those_of_one_text(tmp_path):
    theirs = cases.make_model("xlnet")
    theirs.save_pretrained(tmp_path)
    ids, _ = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype("int64"))).last_hidden_state.numpy()
    got = answers(from_pretrained(tmp_path), ids, np.zeros_like(ids))[0]
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("config", [cases.XLNET, cases.XLNET_ODD], ids=["plain", "odd"])
@pytest.mark.parametrize("kind", ["LMHeadModel", "ForSequenceClassification", "ForTokenClassification"])
def test_gradients_of_a_step_agree(kind, config, tmp_path):
    rates = {"dropout": 0.0, "summary_last_dropout": 0.0}
    theirs = cases.random_model("XLNet", kind, {**config, **rates, "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, segments = cases.make_inputs(theirs)
    step(theirs, ours, kind, ids, segments)
    assert_gradients_agree(theirs, ours, tmp_path / "gradients", without={"transformer.mask_emb"})


def test_a_folder_of_ours_scores_tokens_in_transformers(tmp_path):
    theirs = cases.make_model("xlnet_lm")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    keras.utils.set_random_seed(2)
    for variable in ours.weights:
        variable.assign(variable + keras.random.normal(variable.shape, stddev=0.1))
    save_pretrained(ours, tmp_path / "ours")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    ids, segments = cases.make_inputs(again)
    real = ids != again.config.pad_token_id
    (expected,), (got,) = cases.outputs_of(again, ids, segments), answers(ours, ids, segments)
    np.testing.assert_allclose(got[real], expected[real], atol=1e-5)


@pytest.mark.parametrize("heads", ["Model", "LMHeadModel"])
@pytest.mark.parametrize(
    "changes", [{"mem_len": None}, {"mem_len": 4}, {"mem_len": 30, "reuse_len": 5}, {"mem_len": 12, "clamp_len": 6}]
)
def test_memories_over_three_segments_agree(changes, heads, tmp_path):
    theirs = cases.random_model("XLNet", heads, {**cases.XLNET, **changes})
    theirs.save_pretrained(tmp_path)
    ours, encoder = from_pretrained(tmp_path), theirs if heads == "Model" else theirs.transformer
    ids, segments = cases.make_inputs(theirs)
    known, expected = None, None
    for length in (17, 9, 1):
        part, kind = ids[:, -length:], segments[:, -length:]
        real = part != theirs.config.pad_token_id
        with torch.no_grad():
            given = {"attention_mask": torch.tensor(real.astype("int64")), "token_type_ids": torch.tensor(kind)}
            expected = encoder(torch.tensor(part), **given, mems=None if expected is None else expected.mems, use_mems=True)
        by_name = {"Input-Token": part, "Input-Segment": kind, "Input-Masked": np.ones_like(part)}
        got, known = run_with_memories(ours, {tensor.name: by_name[tensor.name] for tensor in ours.inputs}, known)
        np.testing.assert_allclose(got.detach().numpy()[real], expected.last_hidden_state.numpy()[real], atol=1e-5)
        for memory, theirs_of in zip(known, expected.mems, strict=True):
            assert memory.shape == theirs_of.transpose(0, 1).shape
            np.testing.assert_allclose(memory[0], theirs_of[:, 0], atol=1e-5)  # of the row without padding
        # A token of padding also attends to itself in transformers, and later segments attend to it.
        known = [memory.transpose(0, 1) for memory in expected.mems]


# XLNet's two streams against transformers: `perm_mask` and `target_mapping`, logits, loss and the gradient of every weight.


RATES = {"dropout": 0.0, "summary_last_dropout": 0.0}
STREAMS = (
    {},
    {"clamp_len": 4, "ff_activation": "gelu_new", "layer_norm_eps": 1e-5, "pad_token_id": 0, "n_head": 2},
    {"n_layer": 1, "n_head": 1, "d_inner": 7},
    {"n_layer": 3, "mem_len": None},
)

streams = pytest.mark.parametrize("changes", STREAMS, ids=lambda changes: "-".join(changes) or "plain")


def both(changes, folder):
    """Their model and ours with its weights, whose query vector is trained."""
    theirs = cases.random_model("XLNet", "LMHeadModel", {**cases.XLNET, **RATES, **changes})
    theirs.save_pretrained(folder)
    ours = from_pretrained(folder)
    whole = build_permutation_model(ours.config)
    values = {weight.path: weight for weight in ours.weights}
    for weight in whole.weights:
        weight.assign(values[weight.path])
    return theirs, whole


def theirs_of(theirs, ids, segments, hidden, positions=None):
    """Their logits, where `positions` are the targets; None for all."""
    length = ids.shape[1]
    positions = np.tile(np.arange(length), (len(ids), 1)) if positions is None else positions
    real = (ids != theirs.config.pad_token_id).astype("int64")
    return theirs(
        torch.tensor(ids),
        attention_mask=torch.tensor(real),
        token_type_ids=torch.tensor(segments),
        perm_mask=torch.tensor(hidden.astype("float32")),
        target_mapping=torch.tensor(np.eye(length, dtype="float32")[positions]),
    ).logits


def ours_of(whole, ids, segments, hidden, positions=None):
    """Our logits."""
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    queries = run_two_streams(whole.model, given, hidden, positions, training=False)
    table = whole.get_layer("Embedding-Token").embeddings
    return whole.get_layer("MLM-Sim")([queries, keras.ops.convert_to_tensor(table)], return_logits=True)


def drawn(rng, theirs):
    """Ids, segments, a mask of pairs of tokens, and targets."""
    ids, segments = cases.make_inputs(theirs)
    hidden = rng.integers(0, 2, (*ids.shape, ids.shape[1])).astype("int32")
    positions = np.stack([rng.permutation(ids.shape[1])[:6] for _ in ids]).astype("int32")
    return ids, segments, hidden, positions


@streams
@pytest.mark.parametrize("everywhere", [False, True])
def test_logits_and_gradients_of_any_mask_and_targets_agree(changes, everywhere, tmp_path):
    theirs, whole = both(changes, tmp_path / "weights")
    ids, segments, hidden, positions = drawn(np.random.default_rng(5), theirs)
    positions = None if everywhere else positions
    expected, got = theirs_of(theirs, ids, segments, hidden, positions), ours_of(whole, ids, segments, hidden, positions)
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    targets = torch.tensor(ids if everywhere else np.take_along_axis(ids, positions, 1)).reshape(-1)
    losses = [torch.nn.functional.cross_entropy(logits.reshape(len(targets), -1), targets) for logits in (expected, got)]
    assert losses[1].item() == pytest.approx(losses[0].item(), abs=1e-5)
    for loss in losses:
        loss.backward()
    assert_gradients_agree(theirs, whole.model, tmp_path / "gradients")


@streams
def test_the_loss_and_gradients_of_a_step_agree(changes, tmp_path):
    theirs, whole = both(changes, tmp_path / "weights")
    rng = np.random.default_rng(6)
    ids, segments, _, positions = drawn(rng, theirs)
    order = np.zeros_like(ids)
    np.put_along_axis(order, positions, np.stack([rng.permutation(6) + 1 for _ in ids]), 1)
    real = ids != theirs.config.pad_token_id
    logits = theirs_of(theirs, ids, segments, keras.ops.convert_to_numpy(hidden_by(torch.tensor(order))), positions)
    counts = torch.tensor(np.take_along_axis(real, positions, 1))
    labels = torch.tensor(np.take_along_axis(ids, positions, 1))
    expected = torch.nn.functional.cross_entropy(logits[counts], labels[counts])
    expected.backward()
    compile_model(whole, optimizer=keras.optimizers.SGD(1.0), max_predictions=6)
    x = [array.astype("int32") for array in (ids, segments, order, order > 0)]
    before = [variable.numpy().copy() for variable in whole.trainable_variables]
    got = whole.train_on_batch(x, ids[..., None].astype("int32"), return_dict=True)
    assert got["loss"] == pytest.approx(expected.item(), abs=1e-5)
    for variable, start in zip(whole.trainable_variables, before, strict=True):
        variable.value.grad = torch.tensor(start - variable.numpy())
    assert_gradients_agree(theirs, whole.model, tmp_path / "gradients")


def test_a_folder_of_a_run_predicts_in_transformers_as_the_model(tmp_path):
    sizes = {"num_hidden_layers": 2, "hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 16}
    settings = {
        "model": sizes,
        "objective": "xlnet",
        "steps": 2,
        "batch_size": 4,
        "seq_len": 16,
        "held_out": 0,
    }
    corpus = small_corpus()
    whole = pretrain(corpus, tmp_path / "run", {**settings, "learning_rate": 0.05, "workers": 0})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").eval()
    assert isinstance(theirs, transformers.XLNetLMHeadModel)
    run = PretrainSettings.from_dict(settings)
    x, _ = training_batches(corpus, run.all_phases[0], run).batch(0, 0)
    ids, segments, order, _ = (array.astype("int64") for array in x)
    with torch.no_grad():
        expected = theirs_of(theirs, ids, segments, keras.ops.convert_to_numpy(hidden_by(torch.tensor(order)))).softmax(-1)
    np.testing.assert_allclose(whole.predict(x, verbose=0), expected.numpy(), atol=1e-5)
