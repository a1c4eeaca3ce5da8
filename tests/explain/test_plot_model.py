"""The pictures of the architecture show every step and fit into their frame."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest
from helpers.small import small_model
from helpers.toy_family import ToyConfig

from keras_bert_rebuild import BertConfig, explain
from keras_bert_rebuild.explain.drawing import Box, Line
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.families import albert, distilbert, electra
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.families.transformer import TransformerConfig


def texts(diagram):
    return [element.text for element in ElementTree.fromstring(diagram.to_svg()).iter("{http://www.w3.org/2000/svg}text")]


CONFIGS = {
    "bert": (BertConfig(), None),
    "bare": (BertConfig(), []),
    "albert": (BertConfig(family="albert", **albert.DEFAULTS), ["mlm", "sop"]),
    "distilbert": (BertConfig(family="distilbert", **distilbert.DEFAULTS), ["mlm"]),
    "electra": (BertConfig(family="electra", **electra.DEFAULTS), ["rtd"]),
    "answers": (BertConfig(), ["question_answering"]),
    "adapters": (BertConfig(adapter_size=8), ["mlm"]),
    "transformer": (TransformerConfig(), ["mlm"]),
    "distances": (DebertaV2Config(), ["mlm"]),
    "convolution": (
        DebertaV2Config(
            num_hidden_layers=1, conv_kernel_size=3, share_att_key=False, type_vocab_size=2, position_biased_input=True
        ),
        [],
    ),
    "another anatomy": (ToyConfig(family="gated_toy"), ["mlm", "nsp"]),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_step_is_in_the_picture_with_its_parameters(name):
    config, heads = CONFIGS[name]
    diagram = plot_model(config, heads)
    written = texts(diagram)
    explanation = explain(config, heads)
    for step in explanation.steps:
        if step.name != "Inputs":
            assert any(text.endswith(f"= {step.each:,}" if step.each else "no parameters") for text in written), step.name
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
    assert "12 heads of width 64" in written
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


TOY = ToyConfig(family="gated_toy", vocab_size=30, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32)


def ways(diagram):
    """Where each way around a half begins and ends: what is written in the box above its corner, and in the box that it reaches."""
    boxes = [part for part in diagram.parts if isinstance(part, Box) and part.kind != "frame"]
    for line in diagram.parts:
        if isinstance(line, Line) and len(line.points) == 4 and line.points[0][1] == line.points[1][1]:
            begin, end = line.points[0][1], line.points[3]
            above = max((box for box in boxes if box.below < begin), key=lambda box: box.below)
            below = min((box for box in boxes if box.y > begin), key=lambda box: box.y)
            reached = next(box for box in boxes if end[0] in (box.x, box.x + box.width) and box.y < end[1] < box.below)
            yield above.title, below.title, reached.title


@pytest.mark.parametrize("block", [False, True])
def test_the_ways_around_the_halves_are_those_of_the_order(block):
    add, first = "Add, then normalise", "Query" if block else "Attention"
    begin = f"{BertConfig().hidden_size} values per token" if block else "Normalisation"
    assert list(ways(plot_model(BertConfig(), [], block=block))) == [
        (begin, first, add),
        (add, "Up projection, gelu" if block else "Feed-forward", add),
    ]
    begin = f"{TOY.hidden_size} values per token" if block else "Normalisation"
    assert list(ways(plot_model(TOY, [], block=block))) == [(begin, "Normalisation", "+"), ("+", "Normalisation", "+")]
    adapted = [reached for *_, reached in ways(plot_model(BertConfig(adapter_size=8), [], block=block))]
    assert sorted(adapted) == ["+", "+", add, add]


def test_a_block_of_another_anatomy_is_drawn_as_it_is():
    written = texts(plot_model(TOY, [], block=True))
    assert written[0] == "Encoder block 2 of 3, 2,592 parameters"
    assert "2 heads of width 8, rotated by position, within 2 tokens" in written
    assert {"Gate, gelu", "Up projection", "×"} <= set(written)
    boxes = {part.title: part for part in plot_model(TOY, [], block=True).parts if isinstance(part, Box)}
    for above in ("Gate, gelu", "Up projection"):
        assert boxes["×"].x <= boxes[above].centre <= boxes["×"].x + boxes["×"].width
    numbers = [int(text.rpartition("= ")[2].replace(",", "")) for text in written if "= " in text]
    assert sum(numbers) == 2_592
    whole = texts(plot_model(TOY, []))
    assert "H = 16, in 2 of 3 blocks" in whole
    assert whole[-2:] == ["Final normalisation", "H = 16"]


def test_at_a_prompt_a_diagram_is_one_line():
    shown = repr(plot_model(BertConfig()))
    assert shown == "<Diagram of 760 x 936: The architecture of a bert model; save('model.svg') writes it>"
