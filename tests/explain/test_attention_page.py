"""The page holds the arrays, is one file, and shows any text as text."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import minilm
from helpers.attention_arrays import random_anatomy, random_maps
from helpers.attention_models import TEXT, attention_model
from helpers.small import small_model, spread

from keras_bert_rebuild import Tokenizer, WordPieceTokenizer, attention_maps, from_pretrained, show_attention
from keras_bert_rebuild.explain.page_arrays import PRECISIONS, heads_that_fit, pack, precision_that_fits, unpack
from keras_bert_rebuild.explain.page_data import PageContents, PageSource, page_data
from keras_bert_rebuild.explain.plot_attention import plot_attention
from keras_bert_rebuild.explain.show_attention import AttentionPage, attention_page
from keras_bert_rebuild.files.printable import as_script_data

HOSTILE = (
    "</script>",
    "<script>alert(1)</script>",
    "<!--",
    '"',
    "'",
    "&amp;",
    "\u2028",
    "\u202e",
    "\x00",
    "\ud800",
    "{data}",
    "$&",
    "\\u003c",
)
WORDS = ["", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "<", "script", ">", "un", "##aff", "."]
VOCABULARY = {token: i for i, token in enumerate(WORDS)}


def data_of(page):
    """The contents of the page's data script element, and the page without it."""
    element = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
    (text,) = element.findall(page)
    return json.loads(text), element.sub("", page)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed_arrays_come_back_within_the_stated_error(precision, rng):
    array = rng.uniform(0, 1, (3, 5, 7)).astype("float32") ** 4
    if precision not in ("uint16", "root8", "root5"):
        array = array * 40 - 8
    array[0, 0, :2] = 0, 1
    array[2, 4] = 0
    packed = json.loads(json.dumps(pack(array, precision)))
    back = unpack(packed)
    assert back.shape == array.shape
    bound = {
        "uint16": 1 / 131070,
        "root8": np.sqrt(array.clip(0, 1)) / 255 + 1 / 260100,
        "root5": np.sqrt(array.clip(0, 1)) / 31 + 1 / 3844,
        "float16": np.abs(array) / 2048 + 1e-7,
        "float32": 0,
        "int8": np.abs(array).max(-1, keepdims=True) / 254,
    }[precision]
    assert (np.abs(back - array) <= bound + 1e-7 * np.abs(array)).all()
    assert (back[array == 0] == 0).all()


def test_values_that_are_nan_or_too_large_are_refused():
    with pytest.raises(ValueError, match="must have finite values; 1 of 3 are not finite"):
        pack([0, np.nan, 1], "uint16")
    with pytest.raises(ValueError, match="must be below 65504; got 70000"):
        pack([70000.0], "float16")


def test_the_page_holds_the_arrays(rng):
    maps = random_maps(rng)
    anatomy = random_anatomy(rng, maps)
    found, _ = data_of(attention_page(maps, anatomy, name="small"))
    shares = unpack(found["arrays"]["probabilities"])
    np.testing.assert_allclose(shares, maps.probabilities[:, 0], atol=1 / 131070 + 1e-7)
    for name in ("queries", "keys"):
        np.testing.assert_array_equal(unpack(found["arrays"][name]), getattr(maps, name)[:, 0].astype("float16"))
    for name in ("norms", "cosines", "cosines_summed"):
        np.testing.assert_array_equal(unpack(found["arrays"][name]), getattr(anatomy, name).astype("float32"))
    assert found["tokens"] == list(maps.tokens[0])
    assert (found["layers"], found["layerCount"], found["sources"][0]["historyOnly"]) == ([0, 1], 2, False)
    assert np.shape(found["sources"][0]["scores"]) == (5, 2, 3)
    looking_back = replace(maps, probabilities=maps.probabilities * np.tri(9, dtype="float32"))
    assert page_data(PageContents([PageSource(looking_back)]))["sources"][0]["historyOnly"] is True


def test_the_page_is_one_file_and_its_policy_lets_only_its_own_script_run(rng):
    maps = random_maps(rng)
    _, rest = data_of(attention_page(maps, random_anatomy(rng, maps)))
    assert not re.findall(r"\b(?!data:)[a-z]+:/?/", rest)
    assert not re.search(
        r"\b(src|href|srcset|action)\s*=|@import|url\(|\bimport\s*\(|innerHTML|outerHTML|insertAdjacentHTML|eval\(", rest
    )
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', rest)
    assert policy.startswith("default-src 'none'; ")
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", rest, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy


def test_hostile_tokens_stay_in_the_data(rng):
    maps = random_maps(rng, length=len(HOSTILE), tokens=HOSTILE)
    page = attention_page(maps, random_anatomy(rng, maps), name="</title><script>")
    found, rest = data_of(page)
    assert found["tokens"] == list(HOSTILE)
    assert found["name"] == "</title><script>"
    harmless, _ = data_of(attention_page(replace(maps, tokens=(("a",) * len(HOSTILE),))))
    assert harmless["tokens"] != found["tokens"]
    assert rest == data_of(attention_page(replace(maps, tokens=(("a",) * len(HOSTILE),))))[1]
    text = as_script_data(list(HOSTILE))
    assert text.isascii()
    assert not set(text) & set("<>&")
    page.encode("utf-8")


def test_a_page_shows_one_text_with_tokens(rng):
    maps = random_maps(rng)
    with pytest.raises(ValueError, match="one text and its tokens; got 1 texts without"):
        attention_page(replace(maps, tokens=None))
    with pytest.raises(ValueError, match="9 tokens; it is that of another text, 5 tokens"):
        attention_page(maps, random_anatomy(rng, random_maps(rng, length=5)))


def test_pages_of_long_texts_have_as_many_heads_as_fit():
    assert heads_that_fit(12, 12, 128, 64) == (tuple(range(12)), tuple(range(12)), True)
    assert heads_that_fit(24, 16, 128, 64) == (tuple(range(24)), tuple(range(16)), False)
    assert heads_that_fit(12, 12, 128, 64, copies=2) == (tuple(range(12)), tuple(range(12)), False)
    assert precision_that_fits(144, 128, 64) == "root8"
    assert precision_that_fits(144, 64, 64) == "uint16"
    layers, heads, vectors = heads_that_fit(12, 12, 512, 64)
    assert (layers[0], layers[-1], heads[0], heads[-1], vectors) == (0, 11, 0, 11, True)
    assert 9 <= len(layers) * len(heads) <= 18
    layers, heads, vectors = heads_that_fit(12, 12, 512, 64, heads=[3, 5])
    assert (len(layers), heads, vectors) == (9, (3, 5), True)
    layers, heads, vectors = heads_that_fit(12, 12, 512, 64, layers=iter([-1, 0]))
    assert (layers, len(heads), vectors) == ((-1, 0), 9, True)
    for sizes in ((1, 1, 4096, 64), (1, 64, 2048, 64), (48, 1, 512, 64), (12, 12, 300, 64)):
        layers, heads, _ = heads_that_fit(*sizes)
        assert len(set(layers)) == len(layers) >= 1
        assert len(set(heads)) == len(heads) >= 1


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(("layers", "heads", "width"), [(12, 12, 768), (24, 16, 1024)])
def test_pages_of_bert_base_and_large_have_all_heads_in_10_mb(rng, layers, heads, width):
    *_, vectors = heads_that_fit(layers, heads, 128, 64)
    maps = random_maps(rng, layers, heads, 128, 64)  # noise, which hardly compresses
    if not vectors:
        maps = replace(maps, queries=None, keys=None)
    assert len(attention_page(maps, random_anatomy(rng, maps, width))) < 10_000_000


def test_show_attention_writes_whole_files_and_frames_for_notebooks(rng, tmp_path):
    model = spread(small_model(token_num=len(WORDS)), rng)
    tokenizer = WordPieceTokenizer(VOCABULARY, cased=False)
    path = tmp_path / "page.html"
    shown = show_attention(model, tokenizer, "the cat <script>", "sat .", path=path, name="tiny")
    assert path.read_text(encoding="utf-8") == shown.html
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    found, _ = data_of(shown.html)
    assert found["tokens"] == ["[CLS]", "the", "cat", "<", "script", ">", "[SEP]", "sat", ".", "[SEP]"]
    maps = attention_maps(model, texts=["the cat <script>"], pairs=["sat ."], tokenizer=tokenizer).of_text(0)
    np.testing.assert_allclose(unpack(found["arrays"]["probabilities"]), maps.probabilities[:, 0], atol=1e-5)
    frame = shown._repr_html_()
    assert 'sandbox="allow-scripts"' in frame
    assert "<" not in frame[1:].partition('srcdoc="')[2].rpartition('"></iframe>')[0]
    one = show_attention(model, Tokenizer(VOCABULARY), "the cat", layers=[1], heads=[0])
    found, _ = data_of(one.html)
    assert (found["layers"], found["heads"], found["layerCount"], found["headCount"]) == ([1], [0], 2, 2)
    with pytest.raises(OSError, match="No such folder"):
        AttentionPage("x").save(tmp_path / "nowhere" / "page.html")


@pytest.mark.slow(torch=True)
def test_a_head_of_minilm_is_named_after_its_pattern():
    tokenizer = WordPieceTokenizer.from_pretrained(minilm.FOLDER)
    found, _ = data_of(show_attention(from_pretrained(minilm.FOLDER), tokenizer, "The cat sat on the mat.", "It was tired.").html)
    patterns = found["patterns"]
    (source,) = found["sources"]
    assert patterns["names"][source["named"][0][2][0]] == "previous token"
    assert source["scores"][patterns["names"].index("previous token")][0][2] > 0.9


def test_without_matplotlib_the_error_is_one_sentence(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install matplotlib\."):
        plot_attention(random_maps(rng), 0, 0)


@pytest.mark.parametrize(("kind", "terms"), [("windows", ()), ("distances", ("c2p", "p2c"))])
def test_the_page_has_all_that_a_score_is_made_of(kind, terms, rng):
    """softmax(query · key / scale + terms) within the window is the share of the model, from the arrays of the page alone."""
    model, tokenizer = attention_model(kind, rng)
    maps = attention_maps(model, texts=[TEXT], tokenizer=tokenizer, vectors=True).of_text(0)
    data, _ = data_of(show_attention(model, tokenizer, TEXT).html)
    windowed = kind == "windows"
    assert maps.term_names == terms
    (source,) = data["sources"]
    assert (source["windows"], source["thetas"]) == (
        ([None, 3, 3, None], [160_000, 10_000, 10_000, 160_000]) if windowed else ([None] * 4, None)
    )
    assert source["terms"] == ["content to position (c2p)", "position to content (p2c)"][: len(terms)]
    arrays = {name: unpack(array) for name, array in data["arrays"].items()}
    scores = arrays["queries"] @ np.swapaxes(arrays["keys"], -1, -2) / source["scale"]
    if terms:
        assert np.abs(arrays["terms"]).max(axis=(0, 2, 3, 4)).min() > 0.1
        scores = scores + arrays["terms"].sum(1)
    length = scores.shape[-1]
    far = np.abs(np.arange(length)[:, None] - np.arange(length))
    for layer, window in enumerate(source["windows"]):
        scores[layer][:, far > (length if window is None else window)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(shares / shares.sum(-1, keepdims=True), maps.probabilities[:, 0], atol=5e-3)
    assert np.abs(maps.probabilities - 1 / length).max() > 0.2


def test_a_window_wider_than_the_text_is_on_the_page(rng):
    maps = replace(random_maps(rng), windows=(None, 64))
    assert page_data(PageContents([PageSource(maps)]))["sources"][0]["windows"] == [None, 64]
    fewer, more = heads_that_fit(12, 12, 512, 64, terms=2), heads_that_fit(12, 12, 512, 64)
    assert len(fewer[0]) < len(more[0])
