"""What docs/gallery.md and docs/explain.md say about the trained model is true."""

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import minilm

from keras_bert_rebuild import WordPieceTokenizer, attention_maps, from_pretrained
from keras_bert_rebuild.explain.aligned_maps import attention_divergence
from keras_bert_rebuild.explain.attention_patterns import attention_patterns

PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"


@pytest.mark.slow(torch=True)
def test_the_figures_of_the_gallery():
    text = PAGE.read_text(encoding="utf-8")
    first, second = re.search(r'keras-bert attention "(.*?)" \\\n  --pair "(.*?)"', text).groups()
    tokenizer = WordPieceTokenizer.from_pretrained(minilm.FOLDER)
    model = from_pretrained(minilm.FOLDER)
    maps = attention_maps(model, texts=[first], pairs=[second], tokenizer=tokenizer, vectors=True).of_text(0)
    tokens = maps.tokens[0]
    found = attention_patterns(maps.probabilities[:, 0], tokens, maps.sentences[0])
    name, score = found.of_head(0, 2)[0]
    assert (name, round(score, 2)) == ("previous token", 0.99)
    resting = {(i, j): dict(found.of_head(i, j)).get("delimiter", 0) for i in range(6) for j in range(12)}
    chosen = [place for place, score in resting.items() if score]
    assert (len(chosen), {i for i, _ in chosen}) == (19, {1, 2, 3, 4})
    assert max(resting, key=resting.get) == (4, 5)
    assert round(resting[4, 5], 2) == 0.84
    row = maps.probabilities[3, 0, 1, tokens.index("it")]
    assert row.argmax() == tokens.index("cat")
    assert [round(float(row[tokens.index(token)]), 2) for token in ("cat", "[CLS]", "mat")] == [0.32, 0.19, 0.18]
    dot = maps.queries[3, 0, 1, tokens.index("it")] @ maps.keys[3, 0, 1, tokens.index("cat")]
    assert (round(float(dot), 2), round(float(dot / maps.scale), 2)) == (17.07, 3.02)


@pytest.mark.slow(torch=True)
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
def test_the_figures_of_four_bits():
    text = PAGE.read_text(encoding="utf-8")
    first, second = re.search(r'keras-bert attention "(.*?)" \\\n  --pair "(.*?)"', text).groups()
    tokenizer = WordPieceTokenizer.from_pretrained(minilm.FOLDER)
    whole, coarse = from_pretrained(minilm.FOLDER), from_pretrained(minilm.FOLDER)
    coarse.quantize("int4")
    both = [attention_maps(model, texts=[first], pairs=[second], tokenizer=tokenizer).of_text(0) for model in (whole, coarse)]
    shares = [maps.probabilities[:, 0] for maps in both]
    apart = attention_divergence(*shares)
    assert divmod(int(apart.argmax()), 12) == (4, 9)
    assert round(float(np.median(apart)), 3) == 0.008
    tokens, sentences = both[0].tokens[0], both[0].sentences[0]
    assert [round(float(maps[4, 9, tokens.index("sat"), 0]), 2) for maps in shares] == [0.39, 0.74]
    found = [attention_patterns(maps, tokens, sentences) for maps in shares]
    for name, expected in (("delimiter", [0.67, 0.75]), ("next token", [0.19, 0.13])):
        scores = [float(patterns.scores[patterns.names.index(name), 4, 9]) for patterns in found]
        assert [round(score, 2) for score in scores] == expected
    resting = [sum("delimiter" in dict(found[1].of_head(i, j)) for j in range(12)) for i in range(6)]
    assert sum(resting) == 21


def test_pictures_are_there_and_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert len(pictures) == 6
    assert all((PAGE.parent / path).stat().st_size < 150_000 for path in pictures)


EXPLAIN_PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_blocks_run_and_give_the_figures_of_the_text():
    said = {}
    page = EXPLAIN_PAGE.replace('"all-MiniLM-L6-v2"', repr(str(minilm.FOLDER)))
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/explain.md", "exec"), said)
    assert said["explanation"].total("params") == 109_482_240
    found, anatomy = said["found"], said["anatomy"]
    name, score = found.of_head(0, 2)[0]
    assert (name, round(score, 2)) == ("previous token", 0.96)
    resting = [any(name == "delimiter" for name, _ in found.of_head(i, j)) for i in range(6) for j in range(12)]
    assert f"{sum(resting)} of {len(resting)} heads attend mostly to the delimiters" in EXPLAIN_PAGE
    cat = anatomy.tokens.index("cat")
    assert [round(float(norm), 1) for norm in (*anatomy.norms[:, cat], anatomy.norms[2, 0])] == [1.4, 0.5, 0.4, 2.4]
    assert [round(float(cosine), 2) for cosine in anatomy.cosines_summed[:, cat]] == [0.89, 0.25, 0.24]
    assert anatomy.norms.max() == anatomy.norms[2, 0]
    near = said["nearest_tokens"](said["model"], said["tokenizer"], "king", 3)
    assert ", ".join(f"{row.token} {row.cosine:.2f}" for row in near) in EXPLAIN_PAGE
    near = said["nearest_in_texts"](said["model"], said["tokenizer"], said["texts"], text=0, position=5, count=2)
    assert [(row.text, row.token, round(row.cosine, 2)) for row in near] == [(2, "bank", 0.92), (1, "bank", 0.82)]
