"""The pictures of the architecture show every step and fit into their frame."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest
from helpers.small import small_model

from keras_bert_rebuild import BertConfig, explain
from keras_bert_rebuild.explain.diagram import Box
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.families import albert, distilbert


def texts(diagram):
    return [element.text for element in ElementTree.fromstring(diagram.to_svg()).iter("{http://www.w3.org/2000/svg}text")]


CONFIGS = {
    "bert": (BertConfig(), None),
    "bare": (BertConfig(), []),
    "albert": (BertConfig(family="albert", **albert.DEFAULTS), ["mlm", "sop"]),
    "distilbert": (BertConfig(family="distilbert", **distilbert.DEFAULTS), ["mlm"]),
    "answers": (BertConfig(), ["question_answering"]),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_step_is_in_the_picture_with_its_parameters(name):
    config, heads = CONFIGS[name]
    diagram = plot_model(config, heads)
    written = texts(diagram)
    explanation = explain(config, heads)
    for step in explanation.steps:
        if step.name != "Inputs":
            assert any(text.endswith(f"= {step.each:,}") for text in written), step.name
    assert f"{explanation.total('params'):,} parameters" in written[0]
    assert any(text.startswith(f"{config.num_hidden_layers} blocks") for text in written)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("block", [False, True])
def test_boxes_are_inside_the_frame_and_texts_inside_their_boxes(name, block):
    config, heads = CONFIGS[name]
    diagram = plot_model(config, heads, block=block)
    boxes = [part for part in diagram.parts if isinstance(part, Box) and part.kind != "frame"]
    for box in boxes:
        assert box.x >= 0
        assert box.x + box.width <= diagram.width
        assert box.below <= diagram.height
        # Letters of size 11.5 are about 6 wide.
        assert 6 * len(box.detail) <= box.width, box.detail
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a.x + a.width <= b.x or b.x + b.width <= a.x or a.below <= b.y or b.below <= a.y, (a.title, b.title)


def test_a_block_adds_up():
    written = texts(plot_model(BertConfig(), block=True))
    assert "7,087,872 parameters" in written[0]
    assert "12 heads of 64 side by side" in written
    numbers = [int(text.rpartition("= ")[2].replace(",", "")) for text in written if "= " in text]
    assert sum(numbers) == 7_087_872


def test_an_embedding_alone_is_drawn_and_has_no_block():
    config = BertConfig(num_hidden_layers=0)
    assert texts(plot_model(config, []))[0] == f"bert, {config.num_params([]):,} parameters"
    with pytest.raises(ValueError, match="must have an encoder block to draw one; num_hidden_layers is 0"):
        plot_model(config, block=True)


def test_a_model_and_a_file(tmp_path):
    diagram = plot_model(small_model(), path=tmp_path / "model.svg")
    assert (tmp_path / "model.svg").read_text(encoding="utf-8") == diagram.to_svg() == diagram._repr_svg_()


def test_a_png_needs_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"other than \.svg needs matplotlib"):
        plot_model(BertConfig(), path=tmp_path / "model.png")
    assert not list(tmp_path.iterdir())
