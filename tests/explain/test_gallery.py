"""What docs/gallery.md says about the trained model is true."""

import re
from pathlib import Path

import pytest
from helpers import minilm

from keras_bert_rebuild import WordPieceTokenizer, attention_maps, from_pretrained
from keras_bert_rebuild.explain.attention_patterns import attention_patterns

PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"


@pytest.mark.slow
def test_the_figures_of_the_gallery():
    text = PAGE.read_text(encoding="utf-8")
    first, second = re.search(r'keras-bert attention "(.*?)" \\\n  "(.*?)"', text).groups()
    tokenizer = WordPieceTokenizer.from_pretrained(minilm.FOLDER, fast=False)
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


def test_pictures_are_there_and_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert len(pictures) == 4
    assert all((PAGE.parent / path).stat().st_size < 150_000 for path in pictures)
