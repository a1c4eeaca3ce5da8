"""Pages of two models, of a training, and with every panel, from MiniLM's weights with some noise."""

import keras
import numpy as np

from helpers import minilm
from keras_bert_rebuild import attention_maps, from_pretrained, show_attention
from keras_bert_rebuild.explain.page_panels import LensRows, Panels, TokenScores
from keras_bert_rebuild.explain.show_attention import show_training

FIRST, SECOND = "The cat sat on the mat because it was tired.", "Then the dog chased the cat."
STEPS = (100, 1000, 4000, 10_000)
HOSTILE = "</script><b>x</b>"


def disturbed(rng, scale):
    """MiniLM with noise in every weight."""
    model = from_pretrained(minilm.FOLDER)
    for weight in model.weights:
        weight.assign(keras.ops.convert_to_numpy(weight) + rng.normal(0, scale, weight.shape).astype("float32"))
    return model


def steps_of_minilm(rng, final):
    """A pretended training: from noise to MiniLM, in which head 2 of layer 0 becomes a previous-token head."""
    model = from_pretrained(minilm.FOLDER)
    values = [keras.ops.convert_to_numpy(weight) for weight in final.weights]
    noise = [rng.normal(0, 0.05, value.shape).astype("float32") for value in values]
    for place, step in enumerate(STEPS):
        share = place / (len(STEPS) - 1)
        for weight, value, start in zip(model.weights, values, noise, strict=True):
            weight.assign(share * value + (1 - share) * start)
        yield step, model


def write_pages(folder, trained):
    """Write `two.html`, `run.html`, `panels.html` and `both.html`, two models with every panel, and return what they show."""
    model, tokenizer = trained
    rng = np.random.default_rng(3)
    other = disturbed(rng, 0.02)
    show_attention(
        model, tokenizer, FIRST, SECOND, other=other, name="all-MiniLM-L6-v2", other_name=HOSTILE, path=folder / "two.html"
    )
    maps = [attention_maps(each, texts=[FIRST], pairs=[SECOND], tokenizer=tokenizer).of_text(0) for each in (model, other)]
    show_training(steps_of_minilm(rng, model), tokenizer, FIRST, name="run", path=folder / "run.html")
    tokens = attention_maps(model, texts=[FIRST], tokenizer=tokenizer).of_text(0).tokens[0]
    first, second = (random_panels(rng, tokens) for _ in range(2))
    own = {"attributions": first.attributions, "lens": first.lens, "importance": first.importance}
    show_attention(model, tokenizer, FIRST, name="all-MiniLM-L6-v2", path=folder / "panels.html", **own)
    beside = {"other": other, "other_name": HOSTILE, "other_panels": second}
    show_attention(model, tokenizer, FIRST, name="all-MiniLM-L6-v2", path=folder / "both.html", **own, **beside)
    return {"maps": maps, **own, "other_panels": second}


def random_panels(rng, tokens):
    """Two attributions, a lens and importances for MiniLM's heads, with names that would end a script."""
    length = len(tokens)
    chances = np.sort(rng.dirichlet(np.ones(6), (7, length))[..., :4])[..., ::-1]
    words = [[[f"w{row}.{i}.{rank}" for rank in range(4)] for i in range(length)] for row in range(7)]
    words[3][2][1] = HOSTILE
    attributions = [
        TokenScores(tokens, rng.normal(0, 0.4, length), "integrated gradients", "logit of positive", 2.1, -0.3),
        TokenScores(tokens, rng.normal(0, 0.4, length), "shapley", HOSTILE),
    ]
    lens = LensRows(["embedding", *(f"block {i}" for i in range(1, 7))], words, chances)
    return Panels(attributions, lens, rng.uniform(0, 1, (6, 12)))
