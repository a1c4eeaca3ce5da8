"""The lens equals the model cut after a block, with its own head; as a table and as a page."""

import io
import json
import re

import numpy as np
import pytest
from helpers.small import spread
from helpers.small_tasks import CONFIG, TOKENIZER, VOCABULARY, small_encoder
from helpers.tiny_families import heads_of, modules, name_of_module, tiny_config
from rich.console import Console

from keras_bert_rebuild import Tokenizer, build_model, fill_mask
from keras_bert_rebuild.explain import record
from keras_bert_rebuild.interpret import lens_of_text
from keras_bert_rebuild.interpret.lens_of_text import logit_lens
from keras_bert_rebuild.interpret.lens_record import lens_page, rounded

TEXT, TRUTH = "the [MASK] sat on the mat .", "the cat sat on the mat ."
FAMILIES = [module for module in modules() if "mlm" in heads_of(module)]


def answers_of(model, ids):
    """The output of the MLM head for one row."""
    given = {"Input-Token": ids[None], "Input-Segment": ids[None] * 0, "Input-Masked": ids[None] * 0 + 1}
    outputs = model.predict([given[tensor.name] for tensor in model.inputs], verbose=0)
    return np.asarray(outputs[model.output_names.index("MLM")] if isinstance(outputs, list) else outputs)[0]


def cut(model, blocks):
    """The same weights in a model that ends after some blocks."""
    short = build_model(model.config.replace(num_hidden_layers=blocks), ["mlm"])
    values = {variable.path: variable for variable in model.weights}
    for variable in short.weights:
        variable.assign(np.array(values[variable.path]))
    return short


@pytest.mark.slow
@pytest.mark.parametrize("module", FAMILIES, ids=name_of_module)
def test_every_depth_is_the_model_that_ends_there(module, rng):
    model = spread(build_model(tiny_config(module), ["mlm"]), rng)
    lens = logit_lens(model, TOKENIZER, TEXT, truth=TRUTH, top_k=4)
    ids = TOKENIZER.encode_batch([TEXT], special_tokens_in_text=True).ids[0]
    true = TOKENIZER.encode_batch([TRUTH]).ids[0]
    whole = answers_of(model, ids)
    for depth, part in ((1, cut(model, 1)), (2, model)):
        shares = answers_of(part, ids)
        order = np.argsort(-shares, axis=-1)
        np.testing.assert_allclose(lens.top_probabilities[depth], -np.sort(-shares, axis=-1)[:, :4], rtol=1e-4, atol=1e-6)
        for ranks, probabilities, of_text in (
            (lens.final_ranks, lens.final_probabilities, whole.argmax(-1)),
            (lens.true_ranks, lens.true_probabilities, true),
        ):
            own = np.take_along_axis(shares, of_text[:, None], -1)
            np.testing.assert_allclose(probabilities[depth], own[:, 0], rtol=1e-4, atol=1e-6)
            assert (ranks[depth] == np.array([list(row).index(i) + 1 for row, i in zip(order, of_text, strict=True)])).all()
        divergence = (whole * np.log(whole / shares)).sum(-1)
        np.testing.assert_allclose(lens.divergences[depth], divergence, atol=1e-4)


def test_the_depth_before_the_first_block_is_the_embedding_through_the_head(rng):
    model = small_encoder(["mlm"])
    weights = {variable.path: np.asarray(variable) for variable in model.weights}
    lens = logit_lens(model, TOKENIZER, "cat", top_k=1)
    x = weights["Embedding-Token/embeddings"][[2, VOCABULARY.index("cat"), 3]] + weights["Embedding-Position/embeddings"][:3]
    x = x + weights["Embedding-Segment/embeddings"][0]
    for norm in ("Embedding-Norm", "MLM-Norm"):
        if norm == "MLM-Norm":
            x = x @ weights["MLM-Dense/kernel"] + weights["MLM-Dense/bias"]
            x = x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        x = x * weights[f"{norm}/gamma"] + weights[f"{norm}/beta"]
    logits = x @ weights["Embedding-Token/embeddings"].T + weights["MLM-Sim/bias"]
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(lens.top_probabilities[0, :, 0], shares.max(-1), rtol=1e-3)
    assert lens.top_ids[0, :, 0].tolist() == shares.argmax(-1).tolist()


@pytest.mark.slow
def test_the_last_depth_is_the_answer_and_words_are_the_users(rng):
    model = small_encoder(["mlm"])
    lens = logit_lens(model, TOKENIZER, "The [MASK]s sat.", "UNLIKE Paris", top_k=3)
    assert lens.words == ("", "The", "[MASK]", "s", "sat", ".", "", "UN", "LIKE", "Paris", "")
    assert lens.masked.index(True) == 2
    assert lens.positions() == (2,)
    assert (lens.final_ranks[-1] == 1).all()
    assert not lens.divergences[-1].any()
    assert (lens.divergences[:-1] > 0).all()
    assert lens.true_tokens[2] is None
    assert np.isnan(lens.true_probabilities[:, 2]).all()
    filled = fill_mask(model, TOKENIZER, "The [MASK] sat.", top_k=3)[0]
    lens = logit_lens(model, TOKENIZER, "The [MASK] sat.", top_k=3)
    assert [token for token, _ in filled] == list(lens.top_tokens[-1][2])
    assert [share for _, share in filled] == pytest.approx(lens.top_probabilities[-1, 2].tolist(), abs=1e-6)


def test_positions_in_parts_give_the_same_numbers(monkeypatch):
    model = small_encoder(["mlm"])
    whole = logit_lens(model, TOKENIZER, TEXT, truth=TRUTH)
    monkeypatch.setattr(lens_of_text, "LOGITS", 2 * len(VOCABULARY))
    parts = logit_lens(model, TOKENIZER, TEXT, truth=TRUTH)
    np.testing.assert_allclose(parts.divergences, whole.divergences, atol=1e-5)
    np.testing.assert_array_equal(parts.true_ranks, whole.true_ranks)
    np.testing.assert_array_equal(parts.top_ids, whole.top_ids)


def test_a_model_of_a_fixed_length_reads_shorter_texts():
    model = small_encoder(["mlm"])
    fixed = build_model(CONFIG, ["mlm"], seq_len=12)
    fixed.set_weights(model.get_weights())
    lens, other = (logit_lens(one, TOKENIZER, TEXT) for one in (model, fixed))
    assert other.tokens == lens.tokens
    np.testing.assert_allclose(other.divergences, lens.divergences, atol=1e-4)


def test_the_record_is_json_with_null_where_the_truth_is_unknown():
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, TEXT, top_k=2)
    values = json.loads(json.dumps(lens.to_json(), allow_nan=False))
    assert values["depths"] == ["embedding", "block 1", "block 2"]
    assert np.shape(values["top"]) == (3, len(lens.tokens), 2, 2)
    assert values["true_ranks"][1][2] is None
    assert values["true_probabilities"][1][2] is None
    assert values["true_ranks"][1][1] == lens.true_ranks[1, 1]
    assert values["final_ranks"] == lens.final_ranks.tolist()


def test_numbers_are_rounded_to_four_digits():
    assert rounded([0.0, 0.123456, 1234.56, 1.23456e-7]) == [0.0, 0.1235, 1235.0, 1.235e-7]


def test_the_depth_from_which_an_answer_stays_is_found():
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, TEXT)
    for position in range(len(lens.tokens)):
        settled = lens.settled(position)
        assert (lens.final_ranks[settled:, position] == 1).all()
        assert settled == 0 or lens.final_ranks[settled - 1, position] > 1


@pytest.mark.parametrize(
    ("heads", "arguments", "message"),
    [
        (["pooler"], {}, "the model must have an MLM head; its outputs are Encoder-2-FeedForward-Norm, NSP-Dense"),
        (["mlm"], {"truth": "the cat sat"}, "truth must be the text with a token for every mask, 9 tokens; it has 5"),
        (["mlm"], {"truth": "the cat sat on the dog ."}, "of which some differ outside the masks"),
        (["mlm"], {"top_k": 0}, "top_k must be at least 1; got 0"),
        (["mlm"], {"text": 5}, "text must be a string; got 5"),
        (["mlm"], {"text": "the " * 50}, "a text must have at most 40 tokens, as the model allows; got 52"),
        (["mlm"], {"tokenizer": Tokenizer({"[CLS]": 0, "[SEP]": 1, "[UNK]": 2})}, "tokenizer must be from this library"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(heads, arguments, message):
    given = {"tokenizer": TOKENIZER, "text": TEXT, **arguments}
    with pytest.raises(ValueError, match=message):
        logit_lens(small_encoder(heads), **given)


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
    assert record.spread(25, 4) == [0, 8, 16, 24]
    assert record.spread(2, 9) == [0, 1]


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
