"""DeBERTa: the gradient of every weight in a training step, the table of distances among them, is that of transformers."""

import cases
import pytest
from agreement import assert_gradients_agree, step

from keras_bert_rebuild import from_pretrained

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
    step(theirs, ours, kind, ids, segments)
    largest = assert_gradients_agree(theirs, ours, tmp_path / "gradients", least=0.1)
    assert "deberta.encoder.rel_embeddings.weight" in largest
    # The softmax does not depend on what is added to all scores of a query, such as the bias of keys and, with "c2p" alone, that of
    # the norm of distances.
    vanishing = [name for name, value in largest.items() if value <= 1e-4]
    assert all(name.endswith(("key_proj.bias", "encoder.LayerNorm.bias")) for name in vanishing), vanishing
