"""Overlapping windows over long texts."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.text.encoding import has_max_context, window_rows

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(60))])


LAST = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(60))])
LAST.cls_last = True


def numbers(count):
    return " ".join(map(str, range(count)))


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("side", ["right", "left"])
@given(count=st.integers(0, 60), room=st.integers(1, 20), data=st.data())
def test_windows_cover_a_text_and_share_the_stride(side, count, room, data):
    stride = data.draw(st.integers(0, room - 1))
    encoding = TOKENIZER.with_options(truncation_side=side).encode_batch(
        [numbers(count)], max_len=room + 2, stride=stride, pad_to=None
    )
    windows = [TOKENIZER.decode(ids).split() for ids in encoding.ids]
    assert [word for i, window in enumerate(windows) for word in window[stride * (i > 0) :]] == numbers(count).split()
    for before, after in pairwise(windows):
        assert len(before if side == "right" else after) == room
        assert before[len(before) - stride :] == after[:stride]
    assert encoding.texts.tolist() == [0] * len(windows)


@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=9), room=st.none() | st.integers(2, 20), windows=st.booleans())
@pytest.mark.parametrize("cls_last", [False, True])
def test_rows_in_arrays_are_those_in_lists(cls_last, counts, room, windows):
    tokenizer = LAST if cls_last else TOKENIZER
    options = {"max_len": None if room is None else room + 2, "stride": 1 if windows and room else None}
    expected = tokenizer.encode_batch([numbers(count) for count in counts], **options)
    found = tokenizer.encode_rows([numbers(count) for count in counts], **options)
    sizes = found.mask.sum(1)
    assert found.texts.tolist() == expected.texts.tolist()
    for i, (ids, segments) in enumerate(zip(expected.ids, expected.segments, strict=True)):
        assert found.ids[i, : sizes[i]].tolist() == ids.tolist()
        assert found.segments[i, : sizes[i]].tolist() == segments.tolist()
        assert (found.ids[i, sizes[i] :] == TOKENIZER.pad_id).all()


@pytest.mark.slow(torch=True)
@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    room=st.integers(3, 30),
    truncation=st.sampled_from(["longest_first", "halves", "only_first", None]),
)
def test_texts_cut_on_the_left_have_the_lengths_of_those_cut_on_the_right_and_end_where_the_texts_do(counts, room, truncation):
    left = TOKENIZER.with_options(truncation_side="left")
    texts, pairs = ([numbers(count) for count in lengths] for lengths in (counts, counts[::-1]))
    options = {"max_len": room + 3} if truncation is None else {"pairs": pairs, "truncation": truncation, "max_len": room + 3}
    try:
        right = TOKENIZER.encode_batch(texts, **options)
    except ValueError:
        assume(False)
    found = left.encode_batch(texts, **options, return_offsets=True)
    for i, (here, there) in enumerate(zip(found.ids, right.ids, strict=True)):
        sides = [TOKENIZER.decode(part).split() for part in np.split(here, np.flatnonzero(here == TOKENIZER.sep_id))]
        wanted = [TOKENIZER.decode(part).split() for part in np.split(there, np.flatnonzero(there == TOKENIZER.sep_id))]
        for text, words, of_right in zip([texts[i], pairs[i]], sides[: len(sides) - 1], wanted, strict=False):
            assert words == text.split()[len(text.split()) - len(of_right) :]
        inside = found.word_ids[i] >= 0
        whole = [texts[i]] if truncation is None else [texts[i], pairs[i]]
        spans = {text[start:stop] for text in whole for start, stop in found.offsets[i][inside]}
        assert set(TOKENIZER.decode(here).split()) <= spans


@given(count=st.integers(1, 60), room=st.integers(1, 20), data=st.data())
def test_every_token_has_its_maximal_context_in_one_window(count, room, data):
    stride = data.draw(st.integers(0, room - 1))
    encoding = TOKENIZER.encode_batch([numbers(count)], max_len=room + 2, stride=stride, pad_to="longest")
    best = encoding.positions[encoding.max_context]
    assert sorted(best.tolist()) == list(range(count))

    spans = [(row[row >= 0].min(), row[row >= 0].max()) for row in encoding.positions]
    for token in range(count):
        shown = [min(token - a, b - token) + 0.01 * (b - a + 1) if a <= token <= b else -1 for a, b in spans]
        row = int(np.flatnonzero((encoding.positions == token) & encoding.max_context)[0]) // encoding.positions.shape[1]
        assert row == int(np.argmax(shown))


def test_the_memory_for_a_long_text_grows_linearly():
    rows = window_rows(np.array([[20_000]]), np.array([10]), 0, 5)
    tracemalloc.start()
    try:
        best = has_max_context(rows, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(int(row.sum()) for row in best) == 20_000
    assert peak < 16 << 20


def test_a_question_precedes_every_window_of_its_passage():
    encoding = TOKENIZER.encode_batch(
        ["1 2", "3"],
        [numbers(12), numbers(2)],
        max_len=10,
        truncation="only_second",
        stride=2,
        return_offsets=True,
        pad_to="longest",
    )
    assert encoding.texts.tolist() == [0, 0, 0, 0, 1]
    assert [TOKENIZER.decode(ids) for ids in encoding.ids] == [
        "1 2 0 1 2 3 4",
        "1 2 3 4 5 6 7",
        "1 2 6 7 8 9 10",
        "1 2 9 10 11",
        "3 0 1",
    ]
    passage = numbers(12)
    row = encoding.offsets[3][encoding.segments[3] == 1]
    assert [passage[start:stop] for start, stop in row] == ["9", "10", "11", ""]


def test_a_window_without_room_for_tokens_is_refused():
    with pytest.raises(ValueError, match="stride must be less than the 1 tokens that fit into a window of text 0; got 2"):
        TOKENIZER.encode_batch(["1 2 3"], [numbers(9)], max_len=7, truncation="only_second", stride=2, pad_to="longest")
