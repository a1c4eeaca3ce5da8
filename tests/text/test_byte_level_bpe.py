"""`ByteLevelBPETokenizer` against the tokenizers package, and RoBERTa's rows."""

import json
import pickle

import numpy as np
import pytest
from helpers import small_tokenizers

from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer

FILES = ("vocab.json", "merges.txt", "tokenizer.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    return folder, small_tokenizers.byte_level_bpe(folder)


@pytest.fixture(scope="module")
def tokenizer(trained):
    return ByteLevelBPETokenizer(trained[0] / "vocab.json", trained[0] / "merges.txt")


def test_ids_offsets_and_words_are_those_of_tokenizers(tokenizer, trained):
    peer = trained[1]
    # The trained tokenizer finds special tokens in a text.
    lines = [line for line in small_tokenizers.LINES if "<mask>" not in line] + small_tokenizers.SENTENCES
    encoding = tokenizer.encode_batch(lines, return_offsets=True, pad_to=None)
    plain = tokenizer.encode_batch(lines, pad_to=None)
    for line, ids, same, offsets, words in zip(lines, encoding.ids, plain.ids, encoding.offsets, encoding.word_ids, strict=True):
        expected = peer.encode(line)
        assert ids.tolist() == same.tolist() == [0, *expected.ids, 2]
        assert words.tolist() == [-1, *expected.word_ids, -1]
        for (start, stop), (first, last) in zip(offsets[1:-1].tolist(), expected.offsets, strict=True):
            spaces = len(line[first:last]) - len(line[first:last].lstrip(" "))
            assert (start, stop) == (first + spaces, last)
        assert tokenizer.decode(ids) == line


def test_pairs_have_two_separators_and_one_segment(tokenizer):
    encoding = tokenizer.encode_batch(["The harbour", "x"], ["was quiet.", "the letters"], pad_to="longest")
    first, second = tokenizer.encode_flat(["The harbour"])[0].tolist(), tokenizer.encode_flat(["was quiet."])[0].tolist()
    length = len(first) + len(second) + 4
    assert encoding.ids[0, :length].tolist() == [0, *first, 2, 2, *second, 2]
    assert not encoding.segments.any()
    assert (encoding.ids[encoding.mask == 0] == 1).all()


@pytest.mark.parametrize("truncation", ["longest_first", "only_first", "only_second"])
def test_truncated_pairs_have_the_requested_length(tokenizer, truncation):
    texts, pairs = ["the the the the the the the the the"], ["the lamps, the lamps"]
    whole = [tokenizer.encode_flat(side)[0].tolist() for side in (texts, pairs)]
    for max_len in range(14, 26):
        ids = tokenizer.encode_batch(texts, pairs, max_len=max_len, truncation=truncation, pad_to="longest").ids[0].tolist()
        middle = ids.index(2)
        first, second = ids[1:middle], ids[middle + 2 : -1]
        assert len(ids) == min(max_len, len(whole[0]) + len(whole[1]) + 4)
        assert ids[middle : middle + 2] == [2, 2]
        assert (first, second) == (whole[0][: len(first)], whole[1][: len(second)])
        assert truncation != "only_first" or second == whole[1]
        assert truncation != "only_second" or first == whole[0]


def test_windows_of_the_second_text_cover_all_of_it(tokenizer):
    context = " ".join(small_tokenizers.SENTENCES[:3])
    encoding = tokenizer.encode_batch(
        ["who waited?"], [context], max_len=40, stride=5, truncation="only_second", return_offsets=True, pad_to="longest"
    )
    ids = tokenizer.encode_flat([context])[0]
    first = len(tokenizer.encode_flat(["who waited?"])[0])
    behind = (np.arange(encoding.ids.shape[1]) > first) & (encoding.positions >= 0)
    shown = {}
    for row, column in zip(*np.nonzero(behind & encoding.max_context), strict=True):
        position = int(encoding.positions[row, column])
        assert position not in shown
        shown[position] = encoding.ids[row, column]
    assert [shown[i] for i in range(len(ids))] == ids.tolist()
    assert not encoding.max_context[~behind].any()


def test_the_mask_takes_the_space_before_it(tokenizer):
    text = "the  <mask> was<mask>, </s>"
    assert 4 not in tokenizer.encode_batch([text], pad_to="longest").ids
    encoding = tokenizer.encode_batch([text], special_tokens_in_text=True, return_offsets=True, pad_to="longest")
    tokens = [tokenizer.tokens[i] for i in encoding.ids[0].tolist()]
    assert [token for token in tokens if token == "Ġ"] == ["Ġ"]  # before </s>
    assert tokens.count("<mask>") == 2
    for token, (start, stop) in zip(tokens[1:-1], encoding.offsets[0, 1:-1].tolist(), strict=True):
        assert text[start:stop] == token.lstrip("Ġ")
    words = encoding.word_ids[0, 1:-1]
    assert (np.diff(words) >= 0).all()
    assert len({int(word) for token, word in zip(tokens[1:-1], words, strict=True) if token == "<mask>"}) == 2


def test_lists_of_words_have_a_space_before_every_word(tokenizer):
    words = ["the", "", " letters,", "naïve"]
    encoding = tokenizer.encode_batch([words], is_pretokenized=True, pad_to="longest")
    expected = tokenizer.encode_flat([" the", " letters,", " naïve"])[0].tolist()
    assert encoding.ids[0].tolist() == [0, *expected, 2]
    covered = [set() for _ in words]
    for (start, stop), word in zip(encoding.offsets[0, 1:-1].tolist(), encoding.word_ids[0, 1:-1].tolist(), strict=True):
        covered[word] |= set(range(start, stop))
    assert covered == [{i for i, char in enumerate(word) if char != " "} for word in words]


def test_both_file_formats_and_pickling_give_the_same_tokenizer(tokenizer, trained, tmp_path):
    folder, _ = trained
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    others = [ByteLevelBPETokenizer.from_pretrained(folder), ByteLevelBPETokenizer.from_pretrained(tmp_path)]
    for other in [*others, pickle.loads(pickle.dumps(tokenizer))]:
        for line in small_tokenizers.LINES:
            assert other.tokenize(line) == tokenizer.tokenize(line)
    assert len(tokenizer) == len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))


def test_a_space_before_texts_is_read_from_the_folder(tokenizer, trained, tmp_path):
    for file in FILES[:2]:
        (tmp_path / file).write_bytes((trained[0] / file).read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    spaced = ByteLevelBPETokenizer.from_pretrained(tmp_path)
    encoding = spaced.encode_batch(["letters"], return_offsets=True, pad_to="longest")
    assert spaced.tokenize("letters") == tokenizer.tokenize(" letters") != tokenizer.tokenize("letters")
    assert encoding.offsets[0, 1:-1].tolist()[0][0] == 0
    assert encoding.offsets[0, 1:-1].tolist()[-1][1] == 7
    assert not ByteLevelBPETokenizer.from_pretrained(tmp_path, add_prefix_space=False).add_prefix_space


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t, _: t.encode_batch(["a"], ["b"], max_len=3, pad_to="longest"),
            "must be at least 4 for a pair, to hold <s> and </s>; got 3",
        ),
        (
            lambda t, _: t.encode_batch(["ab\ud800"], pad_to="longest"),
            r"texts must be Unicode; got a lone surrogate, '\\ud800', at character 2",
        ),
        (lambda t, _: t.decode([9999]), "ids must be in the vocabulary of 420 tokens; got 9999"),
        (lambda t, _: ByteLevelBPETokenizer({"a": 0}, []), r"must have <s>, <pad>, </s> and <unk>; got one without"),
        (lambda t, _: ByteLevelBPETokenizer(t.vocabulary, ["a b c"]), "must be two tokens separated by a space; got 'a b c'"),
        (
            lambda t, _: ByteLevelBPETokenizer(t.vocabulary, [("q", "q")]),
            "merges must consist of tokens of the vocabulary; got 'q q'",
        ),
        (lambda t, _: ByteLevelBPETokenizer(["a"], []), "vocab must be a dictionary from token to id; got list"),
        (lambda t, folder: ByteLevelBPETokenizer(folder / "no.json", []), "expected a vocab.json at .*; it does not exist"),
        (lambda t, folder: ByteLevelBPETokenizer.from_pretrained(folder), "or tokenizer.json; .* is not one"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(tokenizer, tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tokenizer, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre_tokenizer": {"type": "Metaspace"}}, "has a BPE model on Metaspace words"),
        ({"normalizer": {"type": "NFC"}}, "normalizer NFC"),
        ({"added_tokens": [{"content": "<date>", "id": 5}]}, "must give every added token an id of its own; '<date>' has 5"),
    ],
)
def test_other_bpe_models_are_refused(trained, tmp_path, change, message):
    values = json.loads((trained[0] / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**values, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        ByteLevelBPETokenizer.from_pretrained(tmp_path)


def test_empty_texts_give_empty_rows(tokenizer):
    assert tokenizer.encode_batch([], pad_to="longest").ids.shape == (0, 0)
    assert tokenizer.encode_batch([""], return_offsets=True, pad_to="longest").ids.tolist() == [[0, 2]]
