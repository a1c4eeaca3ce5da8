"""ELECTRA: every hidden state, and the gradients of a training step of discriminator and generator, are those of transformers."""

import cases
import keras
import numpy as np
import pytest
import torch
from test_attentions import compare

from keras_bert_rebuild import from_pretrained
from keras_bert_rebuild.checkpoints.table import LAYOUTS
from keras_bert_rebuild.families.electra import HUGGINGFACE
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.training.losses import PretrainingLoss, ReplacedTokenLoss

# Tables narrower than, as wide as and wider than the blocks, with other settings that are seldom seen.
CONFIGS = {
    "narrow": cases.ELECTRA,
    "equal": {**cases.ELECTRA, **cases.ODD, "embedding_size": 12},
    "wide": {**cases.ELECTRA, "embedding_size": 31, "hidden_act": "silu", "num_attention_heads": 1, "pad_token_id": 5},
}
configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@configs
def test_every_hidden_state_and_map_agrees(config, tmp_path):
    theirs = cases.random_model("Electra", "Model", config)
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    assert ("Embedding-Mapping" in [layer.name for layer in ours.layers]) == (config["embedding_size"] != 12)
    assert compare(theirs, ours, *cases.make_inputs(theirs), atol=1e-5) == 2


@configs
@pytest.mark.parametrize("kind", ["ForPreTraining", "ForMaskedLM"])
def test_gradients_of_a_training_step_agree(config, kind, tmp_path):
    theirs = cases.random_model("Electra", kind, config)
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2 if kind == "ForPreTraining" else 40, ids.shape)
    chosen = real & (rng.random(ids.shape) < 0.4)
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": chosen.astype("int32")}
    output = ours([given[tensor.name] for tensor in ours.inputs], training=False)
    if kind == "ForPreTraining":
        loss = ReplacedTokenLoss()(labels, output)
    else:
        loss = PretrainingLoss(from_logits=False)(labels * chosen, output)
        labels = np.where(chosen, labels, -100)
    loss.backward()
    expected = theirs(
        input_ids=torch.tensor(ids),
        attention_mask=torch.tensor(real.astype("int64")),
        token_type_ids=torch.tensor(segments),
        labels=torch.tensor(labels),
    ).loss
    expected.backward()
    assert keras.ops.convert_to_numpy(loss.detach()) == pytest.approx(expected.item(), abs=1e-5)
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    rows = [row for row in HUGGINGFACE.rows(2, heads_of(ours)) if row.use == "both"]
    compared = 0
    for variable in ours.weights:
        (row,) = (row for row in rows if row.path == variable.path)
        got = LAYOUTS[row.layout].to_theirs(variable.value.grad.numpy())
        np.testing.assert_allclose(got, gradients[row.name].numpy(), atol=1e-5, err_msg=row.name)
        compared += 1
    assert compared == len(gradients)
