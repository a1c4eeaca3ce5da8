"""DeBERTa: the gradient of every weight in a training step, the table of distances among them, is that of transformers."""

import cases
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from keras_bert_rebuild import from_pretrained, save_pretrained

# Shared and own keys of distances, one term and both, buckets and none, a convolution, added positions, both MLM heads.
CONFIGS = {
    "v3": cases.DEBERTA,
    "xlarge": {**cases.DEBERTA_ODD, "hidden_act": "gelu"},
    "no buckets": cases.DEBERTA_PLAIN,
    "new head": {**cases.DEBERTA, "legacy": False, "pos_att_type": ["c2p"], "share_att_key": False},
    "position to content": {**cases.DEBERTA_ODD, "pos_att_type": ["p2c"], "conv_act": "tanh"},
    "far": {**cases.DEBERTA, "position_buckets": 4, "max_relative_positions": 300, "num_hidden_layers": 3},
}
KINDS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
STEPS = [(name, "ForMaskedLM", side) for name in CONFIGS for side in ("right", "left")]
STEPS += [("xlarge", kind, "right") for kind in KINDS[1:]]


@pytest.mark.parametrize(("name", "kind", "side"), STEPS)
def test_gradients_of_a_step_agree(name, kind, side, tmp_path):
    theirs = cases.random_model("DebertaV2", kind, {**CONFIGS[name], "num_labels": 3})
    theirs.save_pretrained(tmp_path / "weights")
    ours = from_pretrained(tmp_path / "weights")
    ids, segments = cases.make_inputs(theirs)
    if side == "left":
        ids, segments = ids[:, ::-1].copy(), segments[:, ::-1].copy()
    real = ids != 0
    labels = np.array([0, 2, 1]) if kind == KINDS[1] else np.where(real, ids % 3, -100)
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(real.astype("int64")), "labels": torch.tensor(labels)}
    if theirs.config.type_vocab_size:
        inputs["token_type_ids"] = torch.tensor(segments)
    theirs(**inputs).loss.backward()
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    called = [given[tensor.name] for tensor in ours.inputs]
    outputs = ours(called if len(called) > 1 else called[0], training=False)
    chosen = outputs if kind == KINDS[1] else outputs[torch.tensor(real)]
    logs = torch.log(chosen) if kind == KINDS[0] else torch.log_softmax(chosen, -1)
    torch.nn.functional.nll_loss(logs, torch.tensor(labels if kind == KINDS[1] else labels[real])).backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters() if weight.grad is not None}
    for variable in ours.trainable_variables:
        variable.value.data, variable.value.grad = variable.value.grad, None  # what is saved next are the gradients
    save_pretrained(ours, tmp_path / "gradients")
    found = load_file(tmp_path / "gradients" / "model.safetensors")
    assert set(found) == set(gradients)
    assert "deberta.encoder.rel_embeddings.weight" in found
    for weight, gradient in gradients.items():
        largest = gradient.abs().max().item()
        # The softmax does not depend on what is added to all scores of a query, such as the bias of keys and, with "c2p" alone,
        # that of the norm of distances.
        assert largest > 1e-4 or weight.endswith(("key_proj.bias", "encoder.LayerNorm.bias")), weight
        np.testing.assert_allclose(found[weight], gradient, rtol=0, atol=1e-5 * max(largest, 0.1), err_msg=weight)
