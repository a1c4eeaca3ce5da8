"""`WordPieceTokenizer` against Google's algorithm, written plainly, and its batches."""

import itertools
import pickle
import unicodedata

import numpy as np
import pytest
from helpers import google_oracle, minilm
from helpers.hostile_inputs import only_exhaustive
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_rebuild import WordPieceTokenizer, load_vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHARACTERS = ["abcdehilmnoruABCéσςǆ中か?.,!'#-", "abcdehilmnorusÉéσςか"]
PIECES = [*CHARACTERS[0], *(f"##{c}" for c in CHARACTERS[1]), "un", "##aff", "##able", "hello", "Hello", "##", "ab"]
SMALL = SPECIAL + PIECES

HOSTILE = [
    "",
    " ",
    "\0",
    "\ufffd",
    "a\0b a\x0bb a\x85b a\u2028b\u2029c",
    "\ufeffHello\u200b wor\u00adld",
    "ﬁ ½ ™ ß ẞ ² １２３ Ａ",
    "ΑΣ ΑΣ. ΑΣ\u0301Β Σ ὈΔΥΣΣΕΎΣ a\u200dΣ b Σ\x01Β",
    "İstanbul I\u0307 ı",
    "e\u0301 é \u0301 a\u0327\u0301 \u1b44\u0301\u302e\u16ff0",
    "中文字符と日本語 한국어 가나다",
    "ไทยแลนด์ हिन्दी עִבְרִית العَرَبِيَّة",
    "don't ##able # ## [MASK] [SEP]",
    "😀👨‍👩‍👧🏽 🇩🇪",
    "≠ ; ` 〈 🄐 \U000e0001",
    "\t a\r\nb\n",
    "\ue000\U000f0000",
    "\ud800 a\udfff",
    "x" * 1000,
    *(char * n for n in (99, 100, 101, 199, 200, 201, 400, 799, 800, 801) for char in "aéσ中😀"),
    "a" * 200 + "." + "b" * 201 + "中" + "c" * 200,
]


VOCABULARIES = [
    pytest.param(minilm.FOLDER / "vocab.txt", False, id="uncased"),
    pytest.param(SMALL, True, id="cased"),
    pytest.param(SMALL, False, id="small-uncased"),
]


def rows(tokenizer, texts):
    ids, lengths = tokenizer.encode_flat(texts)
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def decomposable_lines():
    """Every character that has a decomposition, and its normal forms."""
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) != "Cs" and not unicodedata.is_normalized("NFKD", char):
            yield " ".join(f"a{unicodedata.normalize(form, char)}b" for form in ("NFC", "NFD", "NFKC", "NFKD"))


def check(path, cased, lines):
    tokenizer = WordPieceTokenizer(path, cased=cased)
    expected = [google_oracle.ids(line, tokenizer.vocabulary, cased) for line in lines]
    assert rows(tokenizer, lines) == expected
    assert rows(tokenizer, lines) == expected  # now from the cache


@pytest.mark.parametrize(("path", "cased"), VOCABULARIES)
def test_hostile_strings_have_googles_ids(path, cased):
    check(path, cased, HOSTILE * 3)
    check(path, cased, ["word " * 70 + line for line in HOSTILE])


def test_normal_forms_of_every_decomposable_character_have_googles_ids():
    lines = list(decomposable_lines())
    assert len(lines) > 16000
    check(minilm.FOLDER / "vocab.txt", False, lines[::4])


@only_exhaustive
@pytest.mark.parametrize(("path", "cased"), VOCABULARIES)
def test_every_assigned_character_has_googles_ids(path, cased):
    assigned = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    lines = [f"a{char}b {char}" for char in assigned]
    check(path, cased, [*lines, *decomposable_lines()])


FUZZED = WordPieceTokenizer(SMALL, cased=False)
ASSIGNED = st.characters(exclude_categories=["Cn", "Cs"])


@given(texts=st.lists(st.text(ASSIGNED, max_size=30), min_size=1, max_size=3))
@settings(max_examples=150)
def test_random_text_has_googles_ids(texts):
    assert rows(FUZZED, texts) == [google_oracle.ids(text, FUZZED.vocabulary, False) for text in texts]


@pytest.mark.parametrize(("path", "cased"), VOCABULARIES)
def test_the_slice_of_every_token_normalised_is_the_token(path, cased):
    tokenizer = WordPieceTokenizer(path, cased=cased)
    texts = [line for line in HOSTILE if "Σ" not in line]  # a sigma alone is not a final one
    texts = [*texts, "Héllo wörld, unaffable!", "  Ünaffáble\u200b…"] * 3
    encoding = tokenizer.encode_batch(texts, return_offsets=True, pad_to=None)
    for text, ids, offsets, words in zip(texts, encoding.ids, encoding.offsets, encoding.word_ids, strict=True):
        expected = google_oracle.words(text, cased)
        assert words.max() == len(expected) - 1
        for i, (start, stop), word in zip(ids[1:-1], offsets[1:-1], words[1:-1], strict=True):
            token, found = tokenizer.tokens[int(i)], "".join(google_oracle.words(text[start:stop], cased))
            if token == "[UNK]":
                assert found == expected[word]
            elif stop - start == 1:
                assert token.removeprefix("##") in found  # one character may become several
            else:
                assert found == token.removeprefix("##")


def test_offsets_do_not_depend_on_other_texts_or_the_cache():
    texts = [*HOSTILE, *list(decomposable_lines())[::400]]
    encode = lambda given: WordPieceTokenizer(SMALL, cased=False).encode_batch(given, return_offsets=True)  # noqa: E731
    alone = {text: encode([text]) for text in texts}
    # With half of a surrogate pair, without, and from the cache.
    for batch in (texts, [text for text in texts if "\ud800" not in text], texts * 2):
        found = encode(batch)
        for i, text in enumerate(batch):
            for name in ("ids", "mask", "offsets", "word_ids"):
                np.testing.assert_array_equal(getattr(alone[text], name)[0], getattr(found, name)[i])


def test_the_ids_of_a_word_do_not_depend_on_other_new_words(monkeypatch):
    from keras_bert_rebuild.text import segmented

    lines = [line for line in [*HOSTILE, *list(decomposable_lines())[::200]] if "\ud800" not in line]
    expected = [google_oracle.ids(line, {token: i for i, token in enumerate(SMALL)}, False) for line in lines]
    for size in (1, 50, 1 << 16):
        monkeypatch.setattr(segmented, "SLICE", size)
        tokenizer = WordPieceTokenizer(SMALL, cased=False)
        assert rows(tokenizer, lines) == expected
        assert rows(tokenizer, lines[::-1]) == expected[::-1]


def test_an_interruption_leaves_no_words_without_tokens(monkeypatch):
    from keras_bert_rebuild.text import piece_table

    tokenizer = WordPieceTokenizer(SMALL)
    assert tokenizer.tokenize("hello abab") == ["hello", "ab", "##a", "##b"]
    add, left = piece_table.WordIndex.add, ["first"]

    def interrupted(index, *arguments):
        if left:
            left.pop()
            raise KeyboardInterrupt
        add(index, *arguments)

    monkeypatch.setattr(piece_table.WordIndex, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tokenizer.tokenize("aba")
    assert tokenizer.tokenize("aba abab") == ["ab", "##a", "ab", "##a", "##b"]


def test_a_token_that_no_text_can_contain_is_not_a_word():
    tokenizer = WordPieceTokenizer([*SMALL, "ab\0", "\0", "x" * 201, "a b", "zz\0"])
    assert tokenizer.tokenize("ab a b zz") == ["ab", "a", "b", "[UNK]"]
    assert tokenizer.tokenize("x" * 201) == ["[UNK]"]


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(("path", "cased"), VOCABULARIES)
def test_a_graph_that_takes_text_has_googles_ids(path, cased):
    import tensorflow as tf

    from keras_bert_rebuild.text.tensorflow_wordpiece import TensorFlowWordPiece
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceSettings

    vocabulary = WordPieceTokenizer(path).vocabulary
    graph = tf.function(TensorFlowWordPiece(list(vocabulary), "[UNK]", WordPieceSettings(not cased)))
    lines = [line for line in [*HOSTILE, *list(decomposable_lines())[::8]] if "\ud800" not in line]
    expected = [google_oracle.ids(line, vocabulary, cased) for line in lines]
    assert graph(tf.constant(lines)).to_list() == expected
    assert graph(tf.constant(["x"])).to_list() == [google_oracle.ids("x", vocabulary, cased)]
    with_null = TensorFlowWordPiece([*vocabulary, "x\0"], "[UNK]", WordPieceSettings(not cased))
    assert with_null(tf.constant(["x"])).to_list() == [google_oracle.ids("x", vocabulary, cased)]


SETTINGS = [
    {"cased": cased, "strip_accents": strip, "tokenize_chinese_chars": chinese}
    for cased, strip, chinese in itertools.product((False, True), (None, False, True), (True, False))
]
FORMS = [
    "안녕하세요 HELLO",
    "Ştiinţă İd ÉÀ e\u0301X",
    "中国ABC中 国,x。東京",
    "ΑΣ ΟΔΟΣ,",
    "中" * 201 + " a",
    "é" * 150 + "中" * 60,
    "",
]


def _vocabulary_of_forms():
    found = {char for line in FORMS for form in (line, line.lower()) for char in form + unicodedata.normalize("NFD", form)}
    pieces = sorted(char for char in found if not char.isspace())
    return {token: i for i, token in enumerate([*SPECIAL, *pieces, *(f"##{piece}" for piece in pieces), "hello", "中国ABC中"])}


@pytest.mark.parametrize("told", SETTINGS, ids=str)
def test_every_setting_follows_googles_algorithm(told):
    vocabulary = _vocabulary_of_forms()
    tokenizer = WordPieceTokenizer(vocabulary, **told)
    assert rows(tokenizer, FORMS) == [google_oracle.ids(line, vocabulary, **told) for line in FORMS]
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize("told", SETTINGS, ids=str)
def test_the_graph_has_every_setting(told):
    import tensorflow as tf

    from keras_bert_rebuild.text.tensorflow_wordpiece import TensorFlowWordPiece

    vocabulary = _vocabulary_of_forms()
    tokenizer = WordPieceTokenizer(vocabulary, **told)
    expected = [google_oracle.ids(line, vocabulary, **told) for line in FORMS]
    graph = tf.function(TensorFlowWordPiece(list(vocabulary), "[UNK]", tokenizer.settings))
    assert graph(tf.constant(FORMS)).to_list() == expected


def test_tokenizers_of_the_same_settings_are_equal():
    assert WordPieceTokenizer(SMALL, cased=False) == WordPieceTokenizer(SMALL, cased=False)
    assert hash(WordPieceTokenizer(SMALL)) == hash(WordPieceTokenizer(SMALL))
    plain = WordPieceTokenizer(SMALL, cased=False)
    for other in ({"strip_accents": False}, {"tokenize_chinese_chars": False}, {"second_segment": 0}, {"cased": True}):
        assert plain.with_options(**other) != plain
    assert plain != SMALL


def test_an_unknown_word_is_one_unknown_token_with_its_offsets():
    tokenizer = WordPieceTokenizer(SMALL)
    encoding = tokenizer.encode_batch(["hello, hellox! ab"], return_offsets=True, pad_to="longest")
    assert tokenizer.decode(encoding.ids[0], skip_special_tokens=False) == "[CLS] hello , [UNK] ! ab [SEP]"
    assert encoding.offsets[0].tolist() == [[0, 0], [0, 5], [5, 6], [7, 13], [13, 14], [15, 17], [0, 0]]
    assert encoding.word_ids[0].tolist() == [-1, 0, 1, 2, 3, 4, -1]


def test_case_is_read_from_the_vocabulary_or_the_folder(tmp_path):
    assert WordPieceTokenizer(SMALL).cased
    assert not WordPieceTokenizer.from_pretrained(minilm.FOLDER).cased
    (tmp_path / "vocab.txt").write_text("\n".join(SMALL), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert not WordPieceTokenizer.from_pretrained(tmp_path).cased
    assert WordPieceTokenizer.from_pretrained(tmp_path, cased=True).cased


def test_a_missing_path_does_not_fall_back_to_its_folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(SMALL), encoding="utf-8")
    with pytest.raises(ValueError, match=r"at .*mistyped; it does not exist"):
        WordPieceTokenizer.from_pretrained(tmp_path / "mistyped")


def test_pairs_are_cut_as_google_cuts_them():
    def googles(first, second, room):
        first, second = list(first), list(second)
        while len(first) + len(second) > room:
            (first if len(first) > len(second) else second).pop()
        return first, second

    tokenizer = WordPieceTokenizer(SMALL)
    texts, pairs = ["a " * n for n in range(8)] * 8, ["b " * (n // 8) for n in range(64)]
    for max_len in range(3, 18):
        encoding = tokenizer.encode_batch(texts, pairs, max_len=max_len, pad_to=None)
        for text, pair, ids, segments in zip(texts, pairs, encoding.ids, encoding.segments, strict=True):
            first, second = googles(text.split(), pair.split(), max_len - 3)
            assert tokenizer.decode(ids, False).split() == ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            assert segments.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_only_the_named_text_is_cut():
    tokenizer = WordPieceTokenizer(SMALL)
    words = lambda truncation: tokenizer.decode(  # noqa: E731
        tokenizer.encode_batch(["a b c d"], ["e h i l"], max_len=9, truncation=truncation, pad_to="longest").ids[0]
    )
    assert (words("only_first"), words("only_second")) == ("a b e h i l", "a b c d e h")
    with pytest.raises(ValueError, match=r"must leave room for a token of that text; the other text of pair 0 has 4 tokens"):
        tokenizer.encode_batch(["a b c d"], ["e"], max_len=6, truncation="only_second", pad_to="longest")


@pytest.mark.parametrize(("pad_to", "width"), [("longest", 5), (12, 12), ([4, 8, 16], 8)])
def test_padding_has_the_requested_length(pad_to, width):
    encoding = WordPieceTokenizer(SMALL).encode_batch(["a b c", "a"], pad_to=pad_to)
    assert encoding.ids.shape == (2, width)
    assert encoding.mask.sum(1).tolist() == [5, 3]
    assert (encoding.ids[1, 3:] == 0).all()
    assert encoding.inputs[0].dtype == encoding.inputs[1].dtype == np.int32


def test_rows_have_their_own_lengths_without_padding():
    encoding = WordPieceTokenizer(SMALL).encode_batch(["a b c", "a"], return_offsets=True)
    for rows_of_field in (encoding.ids, encoding.segments, encoding.mask, encoding.offsets, encoding.word_ids):
        assert [len(row) for row in rows_of_field] == [5, 3]


def test_special_tokens_in_text_are_text_by_default():
    tokenizer = WordPieceTokenizer(minilm.FOLDER / "vocab.txt")
    text = "the [MASK] of[SEP]it [mask]"
    assert 103 not in tokenizer.encode_batch([text], pad_to="longest").ids
    encoding = tokenizer.encode_batch([text, "plain"], special_tokens_in_text=True, return_offsets=True, pad_to="longest")
    assert tokenizer.decode(encoding.ids[0], False) == "[CLS] the [MASK] of [SEP] it [ mask ] [SEP]"
    places = [text[start:stop] for start, stop in encoding.offsets[0]]
    assert places == ["", "the", "[MASK]", "of", "[SEP]", "it", "[", "mask", "]", ""]
    assert encoding.word_ids[0].tolist() == [-1, *range(8), -1]
    assert encoding.word_ids[1, :3].tolist() == [-1, 0, -1]


def test_lists_of_words_have_word_numbers():
    encoding = WordPieceTokenizer(SMALL).encode_batch(
        [["hello", "unaffable!", "", "a"], [], ["ab"]], is_pretokenized=True, pad_to="longest"
    )
    assert encoding.word_ids.tolist() == [[-1, 0, 1, 1, 1, 1, 3, -1], [-1] * 8, [-1, 0, *[-1] * 6]]
    assert encoding.offsets[0].tolist()[1:-1] == [[0, 5], [0, 2], [2, 5], [5, 9], [9, 10], [0, 1]]


def test_added_tokens_are_one_token_everywhere():
    tokenizer = WordPieceTokenizer(SMALL, cased=False).add_tokens(["covid", "C++", "<d>", "a"])
    assert tokenizer.tokenize("COVID xx C++<d> a") == ["covid", "[UNK]", "C++", "<d>", "a"]
    assert [tokenizer.vocabulary[token] for token in ("covid", "C++", "<d>")] == [len(SMALL), len(SMALL) + 1, len(SMALL) + 2]
    assert tokenizer.added_tokens == ("C++", "<d>")


def test_a_tokenizer_is_pickled_to_other_processes():
    tokenizer = WordPieceTokenizer(SMALL).add_tokens(["C++"])
    other = pickle.loads(pickle.dumps(tokenizer))
    assert (
        other.encode_batch(["C++ hello"], pad_to="longest").ids.tolist()
        == tokenizer.encode_batch(["C++ hello"], pad_to="longest").ids.tolist()
    )


def test_decode_joins_the_pieces():
    tokenizer = WordPieceTokenizer(SMALL, cased=False)
    ids = tokenizer.encode_batch(["Unaffable, hello [x]"], max_len=12, pad_to=12).ids[0]
    assert tokenizer.decode(ids) == "unaffable , hello"
    with pytest.raises(ValueError, match=r"ids must be in the vocabulary of \d+ tokens; got 999"):
        tokenizer.decode([999])


def test_a_vocabulary_with_a_repeated_line_keeps_its_ids(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, "a", "b", "a", "c"]), encoding="utf-8")
    tokenizer = WordPieceTokenizer(path)
    assert tokenizer.encode_flat(["a b c"])[0].tolist() == [load_vocabulary(path)[word] for word in "abc"] == [7, 6, 8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.encode_batch("abc", pad_to="longest"), "texts must be a list of texts; got str 'abc'"),
        (lambda t: t.encode_batch(["a", None], pad_to="longest"), "texts must be strings; number 1 is NoneType"),
        (lambda t: t.encode_batch(["a"], ["b", "c"], pad_to="longest"), "pairs must have a text for each of the 1 texts; got 2"),
        (lambda t: t.encode_batch(["a"], max_len=1, pad_to="longest"), "max_len must be at least 2"),
        (lambda t: t.encode_batch(["a b c"], pad_to=4), "pad_to must fit the longest row of 5 tokens; got 4"),
        (lambda t: t.encode_batch(["a"], truncation="no", pad_to="longest"), "truncation must be"),
        (lambda t: t.encode_batch(["a"], stride=1, pad_to="longest"), "stride must be"),
        (lambda t: t.encode_batch(["a b c d e"], max_len=4, stride=2, pad_to="longest"), "stride must be less than the 2 tokens"),
        (lambda t: t.encode_batch(["a b"], is_pretokenized=True, pad_to="longest"), "text must be a list of words"),
        (lambda t: t.encode_batch([None], is_pretokenized=True), "text must be a list of words; text 0 is NoneType"),
        (lambda t: t.encode_batch(["a"], pad_to="max_length"), "'longest', a length or a list of lengths; got 'max_length'"),
        (lambda t: t.decode([[2, 3]]), r"ids must be a single row; got an array of shape \(1, 2\)"),
        (lambda t: WordPieceTokenizer(["a"]), r"without \['\[PAD\]', '\[UNK\]'"),
        (lambda t: WordPieceTokenizer.from_pretrained("nowhere"), "at nowhere; it does not exist"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call(WordPieceTokenizer(SMALL))


def test_empty_texts_give_empty_rows():
    assert WordPieceTokenizer(SMALL).encode_batch([], pad_to="longest").ids.shape == (0, 0)
    assert WordPieceTokenizer(SMALL).encode_batch(["", "\0"], pad_to="longest").ids.tolist() == [[2, 3], [2, 3]]


def test_memory_is_bounded(monkeypatch):
    from keras_bert_rebuild.text import piece_table

    monkeypatch.setattr(piece_table, "MAX_TOKENS", 50)
    tokenizer = WordPieceTokenizer(SMALL, cased=False)
    for n in range(30):
        text = f"hello a{n} {'ab' * n}"
        assert rows(tokenizer, [text]) == [google_oracle.ids(text, tokenizer.vocabulary, False)]
        assert len(tokenizer._table._ids) < len(SMALL) + 50 + 60  # the bound, and one text
