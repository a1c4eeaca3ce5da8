"""XLNet's two streams against transformers: `perm_mask` and `target_mapping`, logits, loss and the gradient of every weight."""

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from agreement import assert_gradients_agree
from helpers.small_corpus import small_corpus

from keras_bert_rebuild import compile_model, from_pretrained
from keras_bert_rebuild.models.permutation_model import build_permutation_model, hidden_by, run_two_streams
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain, training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

RATES = {"dropout": 0.0, "summary_last_dropout": 0.0}
SETTINGS = (
    {},
    {"clamp_len": 4, "ff_activation": "gelu_new", "layer_norm_eps": 1e-5, "pad_token_id": 0, "n_head": 2},
    {"n_layer": 1, "n_head": 1, "d_inner": 7},
    {"n_layer": 3, "mem_len": None},
)

settings = pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: "-".join(changes) or "plain")


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


@settings
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


@settings
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
