"""Rows and windows over long texts, flat arrays of tokens, and labels of words as labels of tokens."""

import itertools
import tracemalloc
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from helpers import google_oracle
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.text.encoding import has_max_context, window_rows
from keras_bert_rebuild.text.flat_tokens import WordSplitter
from keras_bert_rebuild.text.segmented import align_labels, is_first_piece
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceSettings

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


# `WordSplitter` against Google's algorithm, written plainly.


SPLITTERS = {
    settings: WordSplitter(settings)
    for settings in itertools.starmap(WordPieceSettings, itertools.product((True, False), (None, True, False), (True, False)))
}
TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cn", "Cs"]) | st.sampled_from("aΣ\u0301\U0001d165中 .\t\0İ"), max_size=20),
    max_size=5,
)


@pytest.mark.parametrize("settings", SPLITTERS, ids=str)
@given(texts=TEXTS)
def test_words_are_googles_and_every_character_has_its_origin(settings, texts):
    flat = SPLITTERS[settings](texts, True)
    told = {"strip_accents": settings.strip_accents, "tokenize_chinese_chars": settings.tokenize_chinese_chars}
    expected = [google_oracle.words(text, not settings.do_lower_case, **told) for text in texts]
    assert flat.lengths.tolist() == [len(words) for words in expected]
    assert flat.strings(np.arange(len(flat.begins))) == [word for words in expected for word in words]
    owners = np.repeat(np.arange(len(texts)), flat.lengths)
    for begin, stop, owner in zip(flat.begins, flat.stops, owners, strict=True):
        for character, origin in zip(flat.characters[begin:stop], flat.origins[begin:stop] - flat.texts[owner], strict=True):
            source = texts[owner][origin]
            form = source.lower() if settings.do_lower_case else source
            form = unicodedata.normalize("NFD", form) if settings.strips else form
            assert chr(character) in form or (source, chr(character)) == ("Σ", "ς")


def test_without_offsets_none_are_returned():
    flat = WordSplitter(WordPieceSettings())(["a b"], False)
    assert flat.origins is None
    assert flat.texts is None


def test_no_texts_have_no_words():
    for texts in ([], ["", " \0"]):
        flat = WordSplitter(WordPieceSettings())(texts, True)
        assert flat.strings(np.arange(0)) == []
        assert flat.lengths.tolist() == [0] * len(texts)


# Labels of words as labels of tokens.


OF_PIECES = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "jo", "##hn", "in", "par", "##is"])


def test_the_first_piece_has_the_label_or_every_piece_has_it():
    words = OF_PIECES.encode_batch([["john", "in", "paris"], ["in"]], is_pretokenized=True, pad_to="longest").word_ids
    labels = [[1, 0, 2], [0]]
    none = -100
    assert align_labels(words, labels).tolist() == [[none, 1, none, 0, 2, none, none], [none, 0, *[none] * 5]]
    assert align_labels(words, labels, ignored=-1, label_all_pieces=True).tolist()[0] == [-1, 1, 1, 0, 2, 2, -1]
    assert is_first_piece(words).sum(1).tolist() == [3, 1]


def test_words_cut_off_have_no_label():
    words = OF_PIECES.encode_batch([["john", "in", "paris"]], is_pretokenized=True, max_len=5, pad_to="longest").word_ids
    assert align_labels(words, [[1, 0, 2]]).tolist() == [[-100, 1, -100, 0, -100]]


def test_a_word_without_a_label_is_refused():
    words = OF_PIECES.encode_batch([["john", "in"]], is_pretokenized=True, pad_to="longest").word_ids
    with pytest.raises(ValueError, match="row 0 has 2 words and 1 labels"):
        align_labels(words, [[1]])
    with pytest.raises(ValueError, match="labels must be given for 1 rows; got 2"):
        align_labels(words, [[1, 2], [3]])
    with pytest.raises(ValueError, match="word_ids must be rows of one length"):
        align_labels([[-1, 0, -1], [-1, -1]], [[1], []])
