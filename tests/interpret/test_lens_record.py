"""The lens in a terminal and as a page."""

import io
import json
import re

from helpers.small_tasks import TOKENIZER, small_encoder
from rich.console import Console

from keras_bert_rebuild.explain.record import spread
from keras_bert_rebuild.interpret.lens_of_text import logit_lens
from keras_bert_rebuild.interpret.lens_record import lens_page


def printed(lens, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(lens.to_tables(width))
    return console.file.getvalue()


def test_a_mask_has_a_table_with_a_line_for_every_depth():
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, "the [MASK] sat", truth="the cat sat", top_k=1)
    lines = printed(lens).splitlines()
    assert "[MASK], token 2" in lines[1]
    assert f"rank of {lens.final_tokens[2]}" in lines[2]
    assert "rank of cat" in lines[2]
    for depth, line in enumerate(lines[4:7]):
        ranks = rf"{lens.final_ranks[depth, 2]} +{lens.true_ranks[depth, 2]} +{lens.divergences[depth, 2]:.2f}"
        assert re.search(rf"^{lens.depths[depth]} .* {ranks} *$", line)


def test_a_text_without_masks_has_a_line_for_every_word_and_says_what_does_not_fit():
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, "the cat \x1b[2Jsat")
    text = printed(lens, 45)
    assert "\x1b" not in text
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["the", "cat"]
    assert "2 of 3 depths fit into 45 characters." in text
    assert "depths fit" not in printed(lens)


def test_depths_that_are_shown_are_spread_evenly():
    assert spread(25, 4) == [0, 8, 16, 24]
    assert spread(2, 9) == [0, 1]


def test_the_page_holds_the_numbers_and_texts_stay_texts():
    text = "the [MASK] </script><script>alert(1)</script> {data} \u2028 sat"
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, text)
    page = lens_page(lens, name="<b>model</b>")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    values = json.loads(data)
    assert values["name"] == "<b>model</b>"
    assert values["final_ranks"] == lens.final_ranks.tolist()
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
    assert "<b>model" not in page
    assert not re.search(r"https?://|@import|url\(", page)
