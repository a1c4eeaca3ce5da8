"""ELECTRA: every hidden state, and the gradients of a training step of discriminator and generator, are those of transformers."""

import cases
import keras
import numpy as np
import pytest
import torch
import transformers
from test_attentions import compare

from keras_bert_rebuild import compile_model, from_pretrained, save_pretrained
from keras_bert_rebuild.checkpoints.table import LAYOUTS
from keras_bert_rebuild.families.electra import HUGGINGFACE
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.models.replaced_token_model import GENERATOR, build_replaced_token_model
from keras_bert_rebuild.models.running_step import TRAIN, running
from keras_bert_rebuild.training.distributed.distribution import whole_model
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


@configs
def test_a_step_of_pretraining_agrees(config, tmp_path):
    """Loss and every gradient of both models, which share an embedding, with the tokens that ours sampled."""
    for kind, size, heads in (("ForPreTraining", 12, 3), ("ForMaskedLM", 8, 2)):
        changes = {
            "hidden_size": size,
            "num_attention_heads": heads,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
        cases.random_model("Electra", kind, {**config, **changes}).save_pretrained(tmp_path / kind)
    theirs = {"": transformers.ElectraForPreTraining, GENERATOR: transformers.ElectraForMaskedLM}
    given = [from_pretrained(tmp_path / kind).config for kind in ("ForPreTraining", "ForMaskedLM")]
    ours = compile_model(build_replaced_token_model(*given), max_predictions=12)
    rng = np.random.default_rng(4)
    for variable in ours.weights:
        variable.assign(rng.normal(0, 0.3, variable.shape).astype("float32"))
    for scope, part in (("", ours.discriminator), (GENERATOR, ours.generator)):
        save_pretrained(whole_model(part, copied=True), tmp_path / f"ours{scope}", "huggingface")
        theirs[scope] = theirs[scope].from_pretrained(tmp_path / f"ours{scope}").train()
    discriminator, generator = theirs[""], theirs[GENERATOR]
    generator.electra.embeddings = discriminator.electra.embeddings
    # As Google's: a sampled token of padding is a token with a gradient.
    discriminator.electra.embeddings.word_embeddings.padding_idx = None
    generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight

    ids, segments = cases.make_inputs(discriminator)
    real = ids != discriminator.config.pad_token_id
    chosen = real & (rng.random(ids.shape) < 0.4)
    masked = np.where(chosen, 9, ids)
    x = [masked, segments, rng.integers(0, 1 << 24, ids.shape), chosen]
    x = [torch.tensor(np.asarray(array, "int32")) for array in x]
    with running(ours, TRAIN):
        outputs = ours(x, training=True)
        loss = ours.compute_loss(x, torch.tensor(ids), outputs, training=True)
    loss.backward()

    shared = {"attention_mask": torch.tensor(real.astype("int64")), "token_type_ids": torch.tensor(segments)}
    labels = torch.tensor(np.where(chosen, ids, -100))
    mlm = generator(input_ids=torch.tensor(masked), labels=labels, **shared).loss
    read = outputs[1].long()
    replaced = (read != torch.tensor(ids)) & torch.tensor(chosen)
    assert 0 < replaced.sum() <= chosen.sum()
    expected = mlm + 50 * discriminator(input_ids=read, labels=replaced.long(), **shared).loss
    expected.backward()
    assert float(loss.detach()) == pytest.approx(expected.item(), rel=1e-5)

    gradients = {scope: {name: weight.grad for name, weight in model.named_parameters()} for scope, model in theirs.items()}
    rows = {scope: HUGGINGFACE.rows(2, heads) for scope, heads in (("", ("rtd",)), (GENERATOR, ("mlm",)))}
    for variable in ours.weights:
        scope = GENERATOR if variable.path.startswith(GENERATOR) else ""
        (row,) = (row for row in rows[scope] if row.use == "both" and row.path == variable.path.removeprefix(f"{scope}/"))
        got = LAYOUTS[row.layout].to_theirs(variable.value.grad.numpy())
        np.testing.assert_allclose(got, gradients[scope][row.name].numpy(), rtol=1e-4, atol=1e-4, err_msg=variable.path)
