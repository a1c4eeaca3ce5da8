"""The explanation of every family has the formulas of its paper."""

import pytest

from keras_bert_rebuild import BertConfig, explain
from keras_bert_rebuild.explain.config_at import released

SAID = {
    "electra-small-discriminator": (
        "a dense layer projects their sum, 128 · 256 weights",
        "`embeddings_project`",
        "D(x, t) = sigmoid(",
    ),
    "albert-base-v2": ("T · 128 + 128 · 768 weights replace T · 768 (Lan et al., 2020",),
    "modernbert-base": (
        "rotary, theta 160,000 (global), 10,000 (windows of 128)",
        "K = 64, are rotated by the angle p · theta^(-2i / K)",
        "attention is to windows of 128 in 14 of 22 blocks, every token in 8",
        "x = x + f(norm(x))",
        "(act(x · W_gate) ⊙ (x · W)) · W_output with gelu_erf-gated (GeGLU), 1,152 wide",
    ),
    "deberta-v3-base": ("(Q_i · K_j + Q_i · K^r_δ(i,j) + K_j · Q^r_δ(i,j)) / √(3 · K)",),
    "deberta-v2-xlarge": ("a convolution of its input over 3 tokens",),
    "transformer-base": ("sin(pos / 10000^(2i / 512))", "multiplied by 22.63"),
}


@pytest.mark.parametrize("name", SAID)
def test_the_formulas_of_its_paper(name):
    config, heads = released()[name]
    heads = ["rtd"] if name.startswith("electra") else heads
    said = " ".join(explain(config, heads).corrections)
    for words in SAID[name]:
        assert words in said


def test_bert_has_none_of_them():
    said = " ".join(explain(BertConfig()).corrections)
    for word in ("rotated", "windows", "gate", "δ(i,j)", "projects", "sigmoid", "x + f(norm(x))", "convolution"):
        assert word not in said


@pytest.mark.parametrize("name", released())
def test_every_released_model_has_whole_sentences(name):
    for sentence in explain(*released()[name]).corrections:
        assert sentence.endswith(".")
        assert not {"{", "}", "None"} & set(sentence.split())
