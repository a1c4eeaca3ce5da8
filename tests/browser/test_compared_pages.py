"""Two models, a training and the panels in a real browser: tox -e browser."""

import numpy as np
import pytest
from helpers.compared_pages import HOSTILE, STEPS, write_pages

from keras_bert_rebuild.explain.aligned_maps import attention_divergence

RIGHT, LEFT, HOME, END = "\ue014", "\ue012", "\ue011", "\ue010"
PAGES = ("two", "run", "panels", "both")


@pytest.fixture(scope="module")
def pages(trained, tmp_path_factory):
    """The folder of the pages, and what they show."""
    folder = tmp_path_factory.mktemp("pages")
    return folder, write_pages(folder, trained)


def number(text):
    return float(text.replace("−", "-"))


def focus(browser, selector):
    browser.js("document.querySelector(arguments[0]).focus()", selector)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
@pytest.mark.parametrize("name", PAGES)
def test_every_view_fits_its_screen_and_axe_finds_nothing(browser, pages, name, width, scheme):
    with browser.screen(width, 940 if width > 390 else 844, scheme):
        browser.open(pages[0] / f"{name}.html")
        for view in browser.views():
            browser.tab(view)
            assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth"), view
            assert browser.violations() == [], view
            browser.picture(f"{name}-{view}-{width}-{scheme}")
        browser.check_quiet()


def test_heads_can_be_ordered_by_their_divergence(browser, pages):
    folder, shown = pages
    expected = attention_divergence(*(maps.probabilities[:, 0] for maps in shown["maps"]))
    browser.open(folder / "two.html")
    layer, head = np.unravel_index(expected.argmax(), expected.shape)
    assert browser.one("#panel-heads [aria-label='Layer'] [aria-checked='true']").text == str(layer)
    assert browser.one(".head[aria-checked='true']").get_attribute("data-item") == str(head)
    browser.click("#panel-heads [data-item='divergence']")
    rows = browser.all(".heads .head")
    assert [int(row.get_attribute("data-item")) for row in rows] == np.argsort(-expected[layer]).tolist()
    divergences = [number(browser.text(".heads .named", i).split()[-1]) for i in range(12)]
    np.testing.assert_allclose(divergences, np.sort(expected[layer])[::-1], atol=6e-4)
    browser.tab("model")
    grids = [box.find_element("css selector", ".cell") for box in browser.all(".gridbox:not([hidden])")]
    assert [cell.get_attribute("data-item") for cell in grids] == [f"{layer} {head}"] * 2
    browser.check_quiet()


def test_both_models_show_their_own_shares_of_one_token(browser, pages):
    folder, shown = pages
    browser.open(folder / "two.html")
    layer = int(browser.one("#panel-heads [aria-label='Layer'] [aria-checked='true']").text)
    head = int(browser.one(".head[aria-checked='true']").get_attribute("data-item"))
    browser.hover(browser.all(".stagebox")[1].find_elements("css selector", ".queries .row")[2])
    first, second = (maps.probabilities[layer, 0, head, 2] for maps in shown["maps"])
    assert int(browser.one(".shares li").get_attribute("data-token")) == np.abs(second - first).argmax()
    a, b = (number(value) for value in browser.text(".shares .value").split(" → "))
    place = np.abs(second - first).argmax()
    np.testing.assert_allclose([a, b], [first[place], second[place]], atol=6e-4)
    for stage, shares in zip(browser.all(".stagebox"), (first, second), strict=True):
        values = [row.text for row in stage.find_elements("css selector", ".keys .value")]
        assert [value != "" for value in values] == (shares >= 0.01).tolist()
    browser.picture("two-hover")
    browser.check_quiet()


def test_the_difference_of_two_maps_has_a_colour_for_each_sign(browser, pages):
    folder, shown = pages
    browser.open(folder / "two.html")
    browser.tab("model")
    layer, head = (int(i) for i in browser.one(".cell.current").get_attribute("data-item").split())
    size, picture = browser.js(
        "const c = [...document.querySelectorAll('.large')][2]; const { left, top, size } = c.dataset;"
        "return [Number(size), [...c.getContext('2d').getImageData(left, top, size, size).data]]"
    )
    middle = ((np.arange(21) + 0.5) * size / 21).astype(int)
    pixels = np.reshape(picture, (int(size), int(size), 4))[np.ix_(middle, middle)].reshape(-1, 4)
    shares = [maps.probabilities[layer, 0, head] for maps in shown["maps"]]
    assert len(shares[0]) == 21
    difference = (shares[1] - shares[0]).ravel()
    clear = np.abs(difference) > 0.05
    assert clear.sum() > 5
    red, _, blue, _ = pixels.T
    np.testing.assert_array_equal((blue > red)[clear], (difference > 0)[clear])
    browser.click("#panel-model [data-item='difference']")
    assert browser.all(".gridbox:not([hidden])")[0].find_elements("css selector", ".cell")
    browser.picture("two-difference")
    browser.check_quiet()


def test_the_map_can_be_read_with_the_arrow_keys(browser, pages):
    folder, shown = pages
    browser.open(folder / "two.html")
    browser.tab("model")
    layer, head = (int(i) for i in browser.one(".cell.current").get_attribute("data-item").split())
    focus(browser, ".large")
    browser.keys(RIGHT, RIGHT, "\ue015")
    pair, values = browser.text("#panel-model .pair").split("  ")
    assert pair == "The → The"
    expected = [maps.probabilities[layer, 0, head, 1, 1] for maps in shown["maps"]]
    np.testing.assert_allclose([number(value) for value in values.split(" → ")], expected, atol=6e-5)
    assert browser.text("#spoken").startswith("The → The")


def test_neurons_and_embeddings_are_of_the_model_that_is_chosen(browser, pages):
    browser.open(pages[0] / "two.html")
    for view in ("neurons", "embeddings"):
        browser.tab(view)
        seen = []
        for place in (0, 1):
            browser.click(f"#panel-{view} [aria-label='Model'] button", place)
            for _ in range(100):
                if browser.all(f"#panel-{view} .split:not([hidden] *)"):
                    break
                browser.settle()
            browser.settle()
            (box,) = browser.all(f"#panel-{view} .split:not([hidden] *)")
            seen.append(box.text)
        assert seen[0] != seen[1]
        assert HOSTILE in browser.text(f"#panel-{view} [aria-label='Model'] button", 1)
    assert not browser.all("main script, main b b")
    browser.check_quiet()


def test_the_slider_shows_every_step_and_is_moved_by_keys(browser, pages):
    browser.open(pages[0] / "run.html")
    assert browser.one("#tab-training").get_attribute("aria-selected") == "true"
    focus(browser, "#step")
    for key, place in ((HOME, 0), (RIGHT, 1), (END, 3), (LEFT, 2)):
        browser.keys(key)
        for _ in range(50):
            if browser.text("output") == f"{STEPS[place]:,}":
                break
            browser.settle()
        assert browser.text("output") == f"{STEPS[place]:,}"
        assert browser.one("#step").get_attribute("aria-valuetext") == f"step {STEPS[place]:,}"
    browser.check_quiet()


def test_the_page_says_when_a_head_became_a_previous_token_head(browser, pages):
    browser.open(pages[0] / "run.html")
    assert browser.one("#panel-training [aria-label='Pattern'] [aria-checked='true']").text == "previous token"
    browser.hover(browser.all("#panel-training .cell")[2])
    course = browser.text("#panel-training .side .note")
    assert course.startswith("previous token from 0.0")
    assert course.endswith(("named after it since step 4,000", "named after it since step 10,000"))
    assert browser.all("#panel-training .cell")[2].get_attribute("aria-label") == f"Layer 0, head 2: {course}"
    browser.check_quiet()


def test_a_step_that_is_held_is_compared_with_every_other(browser, pages):
    browser.open(pages[0] / "run.html")
    focus(browser, "#step")
    browser.keys(HOME)
    browser.click(".hold")
    browser.keys("\ue004")
    focus(browser, "#step")
    browser.keys(END)
    browser.tab("heads")
    names = [browser.text(".stagebox .sourcename", i) for i in (0, 1)]
    assert names == ["Step 100", "Step 10,000"]
    browser.picture("run-held")
    browser.tab("model")
    assert browser.one("#panel-model [aria-label='Order'] [data-item='divergence']").is_enabled()
    browser.click(".hold")
    browser.tab("heads")
    assert len([box for box in browser.all(".stagebox") if box.is_displayed()]) == 1
    browser.check_quiet()


def test_scores_stand_under_the_words_and_add_up(browser, pages):
    folder, shown = pages
    browser.open(folder / "panels.html")
    browser.tab("why")
    for place, given in enumerate(shown["attributions"]):
        browser.click("#panel-why .choice button", place)
        values = [number(browser.text(".whytoken small", i)) for i in range(len(given.tokens))]
        np.testing.assert_allclose(values, given.scores, atol=6e-4)
        assert abs(number(browser.text("#panel-why dd")) - np.sum(given.scores)) < 6e-5
    assert browser.text("#panel-why aside h2") == HOSTILE
    assert browser.text(".whytoken .token", 1) == "The"
    browser.check_quiet()


def test_the_lens_lists_the_tokens_of_a_cell(browser, pages):
    folder, shown = pages
    browser.open(folder / "panels.html")
    browser.tab("lens")
    browser.hover(browser.one(".lens [data-item='3 2']"))
    listed = [browser.text("#panel-lens .shares .token", i) for i in range(4)]
    assert listed == list(shown["lens"].tokens[3][2])
    values = [number(browser.text("#panel-lens .shares .value", i)) for i in range(4)]
    np.testing.assert_allclose(values, shown["lens"].probabilities[3, 2], atol=6e-4)
    focus(browser, ".lens [data-item='3 2']")
    browser.keys(RIGHT)
    assert browser.js("return document.activeElement.dataset.item") == "3 3"
    browser.check_quiet()


def test_heads_can_be_ordered_by_their_importance(browser, pages):
    folder, shown = pages
    browser.open(folder / "panels.html")
    browser.tab("model")
    browser.click("#panel-model [data-item='importance']")
    places = [cell.get_attribute("data-item") for cell in browser.all("#panel-model .cell")]
    expected = np.argsort(-shown["importance"], axis=None)
    assert places == [f"{i // 12} {i % 12}" for i in expected]
    browser.picture("panels-importance")
    browser.check_quiet()


def test_two_models_have_their_scores_and_their_lens_side_by_side(browser, pages):
    folder, shown = pages
    other = shown["other_panels"]
    browser.open(folder / "both.html")
    browser.tab("why")
    values = [number(browser.text(".whytoken small", i)) for i in range(2 * len(other.attributions[0].tokens))]
    expected = [*shown["attributions"][0].scores, *other.attributions[0].scores]
    np.testing.assert_allclose(values, expected, atol=6e-4)
    assert [browser.text(".whynumbers h2", i)[:4] for i in range(2)] == ["A \u00b7 ", "B \u00b7 "]
    browser.tab("lens")
    browser.hover(browser.all(".lens [data-item='3 2']")[1])
    assert browser.js("return document.querySelectorAll('.lens .looked').length") == 2
    listed = [browser.text(".lensnumbers .value", i) for i in range(8)]
    chances = [*shown["lens"].probabilities[3, 2], *other.lens.probabilities[3, 2]]
    np.testing.assert_allclose([number(value) for value in listed], chances, atol=6e-4)
    browser.tab("model")
    for name, values in (("importance", shown["importance"]), ("importance1", other.importance)):
        browser.click(f"#panel-model [data-item='{name}']")
        places = [cell.get_attribute("data-item") for cell in browser.all(".gridbox:not([hidden]) .cell")[:72]]
        assert places == [f"{i // 12} {i % 12}" for i in np.argsort(-values, axis=None)]
    browser.check_quiet()
