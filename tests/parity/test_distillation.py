"""The losses of a distillation against torch's own functions over the same two models in transformers."""

import numpy as np
import pytest
import torch
from helpers.small import spread
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from keras_bert_rebuild import BertConfig, build_model, compile_model, save_pretrained
from keras_bert_rebuild.models.distillation_model import build_distillation_model
from keras_bert_rebuild.models.distillation_objectives import AttentionRelations, HiddenStates, SoftTargets

LENGTH, HEADS, TEMPERATURE = 12, 8, 2.0
CONFIG = BertConfig(
    vocab_size=60,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=20,
    hidden_act="gelu_erf",
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def seen(folder, tokens, mask, block):
    """Logits, the last hidden state, and queries, keys and values of a block in transformers."""
    model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    vectors = {}
    attention = model.bert.encoder.layer[block - 1].attention.self
    for name in ("query", "key", "value"):
        getattr(attention, name).register_forward_hook(lambda _, __, output, name=name: vectors.__setitem__(name, output))
    with torch.no_grad():
        found = model(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
    return found.logits, found.hidden_states[-1], vectors


def relation_logits(x, mask):
    rows, length, width = x.shape
    x = x.view(rows, length, HEADS, width // HEADS).transpose(1, 2)
    return (x @ x.transpose(-1, -2) / (width // HEADS) ** 0.5).masked_fill(mask[:, None, None, :] == 0, -1e9)


@pytest.mark.parametrize("chunk", [None, 5])
def test_losses_are_those_of_torch_over_the_models_of_transformers(tmp_path, chunk):
    rng = np.random.default_rng(5)
    teacher, student = (spread(build_model(c, ["mlm"]), rng, 0.2) for c in (CONFIG, CONFIG.replace(num_hidden_layers=2)))
    for name, model in (("teacher", teacher), ("student", student)):
        save_pretrained(model, tmp_path / name, vocabulary=[f"t{i}" for i in range(CONFIG.vocab_size)])
    tokens = rng.integers(5, CONFIG.vocab_size, (4, LENGTH)).astype("int32")
    tokens[1:, -4:] = 0
    chosen = np.zeros((4, LENGTH), "int32")
    chosen[:, [1, 3, 6]] = 1
    labels = rng.integers(5, CONFIG.vocab_size, (4, LENGTH, 1)).astype("int32")
    given = [
        SoftTargets(temperature=TEMPERATURE),
        HiddenStates(layers=((3, 2),), measure="cosine"),
        AttentionRelations(layers=((2, 2),), heads=HEADS),
    ]
    model = compile_model(build_distillation_model(student, teacher, given), max_predictions=4, loss_chunk=chunk)
    got = model.evaluate([tokens, np.zeros_like(tokens), chosen], labels, verbose=0, return_dict=True)

    ids, mask = torch.tensor(tokens, dtype=torch.long), torch.tensor(tokens != 0, dtype=torch.long)
    theirs, mine = (seen(tmp_path / name, ids, mask, 2) for name in ("teacher", "student"))
    at, real = torch.tensor(chosen) == 1, mask == 1
    soft = functional.kl_div(
        functional.log_softmax(mine[0][at] / TEMPERATURE, -1),
        functional.softmax(theirs[0][at] / TEMPERATURE, -1),
        reduction="batchmean",
    )
    target = torch.ones(int(real.sum()))
    relation = 0.0
    for name in ("query", "key", "value"):
        one, other = (relation_logits(vectors[2][name], mask) for vectors in (theirs, mine))
        divergence = functional.kl_div(functional.log_softmax(other, -1), functional.softmax(one, -1), reduction="none").sum(-1)
        relation = relation + divergence.mean(1)[real].mean()
    expected = {
        "MLM_loss": functional.cross_entropy(mine[0][at], torch.tensor(labels[..., 0], dtype=torch.long)[at]),
        "Soft_loss": soft * TEMPERATURE**2,
        "Hidden_loss": functional.cosine_embedding_loss(mine[1][real], theirs[1][real], target),
        "Relation_loss": relation,
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
