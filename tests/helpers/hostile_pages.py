"""Every picture and page that shows a user's texts, with a hostile text in each place."""

import base64
import hashlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from helpers.attention_arrays import random_anatomy, random_maps
from helpers.small_tasks import TOKENIZER, small_encoder
from keras_bert_rebuild.explain.drawing import Box, Diagram, Words
from keras_bert_rebuild.explain.html_page import HtmlPage
from keras_bert_rebuild.explain.show_attention import attention_page
from keras_bert_rebuild.interpret.attribution import AttributedWord, Attribution
from keras_bert_rebuild.interpret.attribution_shown import attribution_page
from keras_bert_rebuild.interpret.lens_of_text import logit_lens
from keras_bert_rebuild.interpret.lens_record import lens_page
from keras_bert_rebuild.interpret.probing import Probing, draw_probing
from keras_bert_rebuild.recipes.finetuning.finetune_report import confusion_svg
from keras_bert_rebuild.recipes.metrics_table import draw_curves

RUN = "document.documentElement.setAttribute('data-executed', 'yes')"
# The parts of a text that would end what it is in, and run something.
HOSTILE = (
    f'<script>{RUN}</script>"onload="{RUN}" \'>]]>--></title></style></svg><svg onload="{RUN}"/>'
    f'<img src=x onerror="{RUN}">&{{data}}\x00\x1b\ud800'
)


def hostile_pages():
    """The texts of .svg and .html files by name."""
    points = [(1, 0.5), (2, 0.25)]
    curves = draw_curves({"loss": points, f"probe_{HOSTILE}_{HOSTILE}": points}, HOSTILE, {"loss": {HOSTILE: 0.3}})
    depths = (f"0 {HOSTILE}", f"1 {HOSTILE}")
    thirds = (0.3, 0.6)
    probing = Probing(depths, "texts", (HOSTILE,), (1, 1), *[thirds] * 5, 0.5, 0.5)
    boxes = (Box(0, 0, 9, 9, HOSTILE, HOSTILE), Words(1, 1, HOSTILE))
    words = tuple(AttributedWord(0, HOSTILE, 0, len(HOSTILE), score, 0.1) for score in (0.5, -0.5))
    texts = {"texts": (HOSTILE, HOSTILE), "target": HOSTILE, "method": HOSTILE, "name": HOSTILE, "baseline": HOSTILE}
    attribution = Attribution(**texts, words=words, tokens=(), value=1.0, value_at_baseline=0.0, settings={HOSTILE: HOSTILE})
    rng = np.random.default_rng(0)
    maps = random_maps(rng, length=3, tokens=(HOSTILE,) * 3)
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, f"the [MASK] {HOSTILE.replace(chr(0xD800), '')}", max_len=40)
    return {
        "curves.svg": curves,
        "confusion.svg": confusion_svg([HOSTILE[:24], HOSTILE[-24:]], [[3, 1], [0, 2]], HOSTILE),
        "probing.svg": draw_probing(probing, HOSTILE),
        "diagram.svg": Diagram(9, 9, boxes, HOSTILE).to_svg(),
        "attribution.html": attribution_page([attribution]),
        "lens.html": lens_page(lens, name=HOSTILE),
        "attention.html": attention_page(maps, random_anatomy(rng, maps), name=HOSTILE),
        "frame.html": f"<!DOCTYPE html><title>a</title>{HtmlPage(attribution_page([attribution]), title=HOSTILE)._repr_html_()}",
    }


def elements_of(name, text):
    """The elements of a file: `(name, attributes, texts in it)`."""
    if name.endswith(".svg"):
        found = ElementTree.fromstring(text).iter()
        return [(one.tag.rpartition("}")[2], one.attrib, one.text or "") for one in found]
    reader = _Reader()
    reader.feed(text)
    return reader.found


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))
        self.inside = True

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            tag, attrs, text = self.found[-1]
            self.found[-1] = tag, attrs, text + data


def digest_of(text):
    """A script or style sheet as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
