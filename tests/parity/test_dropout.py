"""In training every family drops the same numbers as transformers: with dropout that is the same function of both, logits agree.

Without dropout of hidden vectors, except in ModernBERT: BERT's graph drops the embedding before its norm, as keras_bert does. The
taggers of DistilBERT and DeBERTa are left out: transformers drops there at the rate of hidden vectors. XLNet is left out: its files
have one rate for everything, and transformers also drops numbers of the last block's output, as `XLNetConfig` says.
"""

import cases
import keras
import numpy as np
import pytest
import torch

from keras_bert_rebuild import from_pretrained

RATES = {
    "DistilBert": {"dropout": 0.0, "attention_dropout": 0.2, "seq_classif_dropout": 0.5},
    "Albert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "classifier_dropout_prob": 0.5},
    "DebertaV2": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "cls_dropout": 0.5},
    "ModernBert": {"embedding_dropout": 0.3, "attention_dropout": 0.2, "mlp_dropout": 0.4, "classifier_dropout": 0.5},
}
OF_BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.2, "classifier_dropout": 0.5}
KINDS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
LEFT_OUT = {("DistilBert", KINDS[-1]), ("DebertaV2", KINDS[-1]), *(("XLNet", kind) for kind in KINDS)}
PAIRS = [(family, kind) for family in cases.FAMILIES for kind in KINDS if (family, kind) not in LEFT_OUT]


def drop(x, rate):
    """Every third feature, or key of probabilities."""
    return x * (torch.arange(x.shape[-1]) % 3 != 0) / (1 - rate)


@pytest.mark.parametrize(("family", "kind"), PAIRS)
def test_the_same_numbers_are_dropped(family, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(
        torch.nn.functional, "dropout", lambda x, p=0.5, training=True, inplace=False: drop(x, p) if training and p else x
    )
    monkeypatch.setattr(keras.random, "dropout", lambda x, rate, noise_shape=None, seed=None: drop(x, rate))
    theirs = cases.random_model(family, kind, {**cases.FAMILIES[family], **RATES.get(family, OF_BERT), "num_labels": 3})
    theirs.set_attn_implementation("eager")
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    ids, segments = cases.make_inputs(theirs)
    real = ids != theirs.config.pad_token_id
    theirs.train()
    (expected,) = cases.outputs_of(theirs, ids, segments)
    given = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    inputs = [given[tensor.name] for tensor in ours.inputs]
    got = ours(inputs if len(inputs) > 1 else inputs[0], training=True).detach().numpy()
    chosen = real if expected.shape[:2] == ids.shape else slice(None)
    np.testing.assert_allclose(got[chosen], expected[chosen], atol=1e-5)
    ours = ours(inputs if len(inputs) > 1 else inputs[0], training=False).detach().numpy()
    assert np.abs(ours[chosen] - got[chosen]).max() > 1e-3
