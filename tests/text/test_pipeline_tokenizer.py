"""A tokenizer.json that is run by the package tokenizers, with the interface of the others."""

import base64
import json
import pickle

import numpy as np
import pytest
from helpers import small_tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from keras_bert_rebuild import load_tokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.tokenizer_json import OneSentence

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["der", "##s", "hund", "2", "0", "-", "ein-hund", "ein", "[MASK]x", "Ä"]
TEXTS = ["Der Hunds ein-Hund 20", "", " [MASK] der[SEP] Ä", "hund " * 30, "<e> der<E>x <e>"]


def words(model=models.WordPiece):
    """A pipeline that splits only at white space and digits, with `<e>` added."""
    tokenizer = Tokenizer(model({token: i for i, token in enumerate(SPECIAL + PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True)])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([AddedToken("<e>", lstrip=True, normalized=False)])
    return tokenizer


def pieces(unknown=0, special=("<unk>", "<s>", "</s>", "<pad>", "<mask>")):
    vocabulary = [*((token, 0.0) for token in special), ("▁", -3.0), *((f"▁{word}", -2.0) for word in ("der", "hund", "ein"))]
    tokenizer = Tokenizer(models.Unigram([*vocabulary, *((char, -4.0) for char in "derhunis-20<e>mask")], unk_id=unknown))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), True, False)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_tokens([AddedToken("<e>", single_word=True)])
    return tokenizer


PIPELINES = {"WordPiece": words, "WordLevel": lambda: words(models.WordLevel), "Unigram": pieces}


@pytest.fixture(params=PIPELINES)
def both(request):
    peer = PIPELINES[request.param]()
    return PipelineTokenizer(json.loads(peer.to_str())), peer


def test_ids_offsets_words_and_pairs_are_those_of_the_package(both):
    ours, peer = both
    encoding = ours.encode_batch(TEXTS, TEXTS[::-1], return_offsets=True, special_tokens_in_text=True)
    expected = [peer.encode(*pair) for pair in zip(TEXTS, TEXTS[::-1], strict=True)]
    assert [row.tolist() for row in encoding.ids] == [row.ids for row in expected]
    assert [row.tolist() for row in encoding.segments] == [row.type_ids for row in expected]
    assert [[*map(tuple, row.tolist())] for row in encoding.offsets] == [row.offsets for row in expected]
    assert [row.tolist() for row in encoding.word_ids] == [
        [-1 if word is None else word for word in row.word_ids] for row in expected
    ]


def test_lists_of_words_are_those_of_the_package(both):
    ours, peer = both
    texts = [["der", "Hunds", "", "20"], [], ["ein-hund"]]
    encoding = ours.encode_batch(texts, is_pretokenized=True, special_tokens_in_text=True)
    expected = [peer.encode(text, is_pretokenized=True) for text in texts]
    assert [row.tolist() for row in encoding.ids] == [row.ids for row in expected]
    assert [row.tolist() for row in encoding.word_ids] == [
        [-1 if word is None else word for word in row.word_ids] for row in expected
    ]


def test_special_tokens_in_a_text_are_text_though_the_model_has_them(both):
    ours, _ = both
    special = " ".join(ours.special_tokens.values())
    assert not ours.special_ids - {ours.unk_id} & set(ours.encode_flat([special])[0].tolist())
    assert ours.mask_id in ours.encode_batch([special], special_tokens_in_text=True).ids[0]


def test_an_added_token_after_hidden_ones_keeps_its_id(both):
    ours, peer = both
    assert ours.added_tokens == ("<e>",)
    assert ours.vocabulary["<e>"] == peer.token_to_id("<e>") == ours.encode_flat(["<e>"])[0].tolist()[-1]


def test_windows_and_truncation_are_those_of_every_tokenizer(both):
    ours, _ = both
    whole = ours.encode_batch(["der hund ein " * 9]).ids[0]
    cut = ours.encode_batch(["der hund ein " * 9], max_len=10).ids[0]
    assert cut.tolist() == [*whole[:9].tolist(), ours.sep_id]
    windows = ours.encode_batch(["der hund ein " * 9], max_len=10, stride=2, pad_to="longest")
    assert windows.texts.tolist() == [0] * len(windows.ids)
    assert windows.positions.max() == len(whole) - 3


def test_a_pipeline_is_pickled_and_round_trips_through_its_file(both, tmp_path):
    ours, peer = both
    assert pickle.loads(pickle.dumps(ours)) == ours
    peer.enable_truncation(4)
    peer.enable_padding()
    peer.save(str(tmp_path / "tokenizer.json"))
    again = load_tokenizer(tmp_path)
    assert isinstance(again, PipelineTokenizer)
    assert [row.tolist() for row in again.encode_batch(TEXTS).ids] == [row.tolist() for row in ours.encode_batch(TEXTS).ids]
    assert PipelineTokenizer(tmp_path / "tokenizer.json") == PipelineTokenizer.from_pretrained(tmp_path)
    assert ours.decode(ours.encode_flat(["der hund"])[0]).strip() == "der hund"


def test_settings_next_to_the_file_add_tokens_and_name_special_ones(tmp_path):
    values = json.loads(words().to_str())
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    settings = {"additional_special_tokens": ["[E1]"], "mask_token": {"content": "[MASK]x"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.tokenize("der[E1]hund") == ["der", "[E1]", "hund"]
    assert tokenizer.special_tokens["mask"] == "[MASK]x"


def test_one_segment_follows_from_the_config_next_to_it(tmp_path):
    words().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"type_vocab_size": 1}')
    assert not np.any(load_tokenizer(tmp_path).encode_batch(["der"], ["hund"], pad_to="longest").segments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"type": "Unigram", "vocab": []}}, "has a Unigram model without a vocabulary"),
        (
            {"model": {"type": "Nothing", "vocab": {"a": 0}}, "added_tokens": []},
            "must have rules that the package tokenizers can run",
        ),
        (
            {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "added_tokens": []},
            "must have tokens for cls, sep",
        ),
        ({"model": {"type": "WordLevel", "vocab": {"a": "b"}}}, "must be an object from token to id, or a list of pieces"),
        (
            {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": []}},
            "post_processor of type 'TemplateProcessing' differ",
        ),
        ({"post_processor": {"type": "Sequence", "processors": [{"type": "a"}, {"type": "b"}]}}, "defines them several times"),
        ({"added_tokens": [{"id": 77, "content": "x"}]}, "must have the ids after those of the model"),
    ],
)
def test_unsupported_pipelines_are_refused_in_a_sentence(tmp_path, change, message):
    (tmp_path / "tokenizer.json").write_text(json.dumps({**json.loads(words().to_str()), **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_tokenizer(tmp_path)


def test_byte_pair_models_with_other_words_are_run_unchanged(tmp_path):
    peer = small_tokenizers.byte_level_bpe(tmp_path)
    peer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    peer.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, PipelineTokenizer)
    assert ours.separators == 2
    for text in small_tokenizers.SENTENCES[:6]:
        assert ours.encode_flat([text])[0].tolist() == peer.encode(text).ids


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MERGES = [
    ("Ġ", "Ġ"),
    ("Ġ", "ĉ"),
    ("Ġ", "."),
    ("t", "h"),
    ("Ġ", "th"),
    ("Ġth", "e"),
    ("Ġ", "a"),
    ("Ã", "Ħ"),
    ("Ġ", "ÃĦ"),
    ("a", "Ġ"),
]
NORMALIZERS = {
    "none": None,
    "NFKC": normalizers.NFKC(),
    "lower case": normalizers.Lowercase(),
    "hyphens as spaces": normalizers.Replace("-", " "),
    "one space": normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]),
}
SPLITTERS = {
    "none": None,
    "words": pre_tokenizers.Whitespace(),
    "white space": pre_tokenizers.WhitespaceSplit(),
    "digits": pre_tokenizers.Digits(True),
    "marks": pre_tokenizers.Punctuation(),
    "BERT": pre_tokenizers.BertPreTokenizer(),
    "spaces before words": pre_tokenizers.Split(" ", "merged_with_next"),
    "spaces after words": pre_tokenizers.Split(" ", "merged_with_previous"),
}


def bytes_of(token):
    """The bytes of a byte-level token."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [i for i in range(256) if i not in plain]
    numbers = {chr(i): i for i in plain} | {chr(256 + n): i for n, i in enumerate(others)}
    return bytes(numbers[char] for char in token)


def byte_level(normalizer, splitter, prefix, regex, processor):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [*ROBERTA, *alphabet, *map("".join, MERGES)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, MERGES))
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = last if splitter is None else pre_tokenizers.Sequence([splitter, last])
    tokenizer.post_processor = processor
    tokenizer.add_special_tokens(ROBERTA)
    tokenizer.add_tokens([AddedToken("<e>", lstrip=True, normalized=False)])
    return PipelineTokenizer(json.loads(tokenizer.to_str()))


PROCESSORS = {
    "with a space": processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, True),
    "without": processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False),
    "in steps": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]),
        ]
    ),
}


@given(
    text=st.text(st.sampled_from("theaN .,-'19Ääß京😀\t\n\r\x1c\x85\xa0\u2003\u2028\u3000"), max_size=12),
    normalizer=st.sampled_from(sorted(NORMALIZERS)),
    splitter=st.sampled_from(sorted(SPLITTERS)),
    prefix=st.booleans(),
    regex=st.booleans(),
    processor=st.sampled_from(sorted(PROCESSORS)),
)
def test_the_characters_of_a_byte_level_token_are_its_bytes(text, normalizer, splitter, prefix, regex, processor):
    form = NORMALIZERS[normalizer]
    tokenizer = byte_level(form, SPLITTERS[splitter], prefix, regex, PROCESSORS[processor])
    encoding = tokenizer.encode_batch([text], return_offsets=True)
    covered = set()
    for i, (start, stop) in zip(encoding.ids[0][1:-1].tolist(), encoding.offsets[0][1:-1].tolist(), strict=True):
        inside, found = bytes_of(tokenizer.tokens[i].strip("Ġ")), text[start:stop]
        covered |= set(range(start, stop))
        if not inside:
            assert found == ""
            continue
        try:
            expected = inside.decode()
        except UnicodeDecodeError:  # some bytes of one character
            assert len(found.strip(" ")) == 1
            continue
        assert (found if form is None else form.normalize_str(f".{found}.")[1:-1]) == expected
    # No character but spaces is in no token.
    assert all(text[i].isspace() or text[i] == "-" for i in set(range(len(text))) - covered)


def test_words_keep_their_first_letters_where_spaces_are_put_before_all_of_them():
    text = "Anna has a port\u3000in the   Ä, then a<e> th"
    tokenizer = byte_level(normalizers.NFKC(), pre_tokenizers.Whitespace(), True, False, PROCESSORS["with a space"])
    encoding = tokenizer.encode_batch([text, text[5:]], return_offsets=True)
    for row, line in enumerate((text, text[5:])):
        words = encoding.word_ids[row]
        found = [encoding.offsets[row][words == word] for word in range(words.max() + 1)]
        assert " ".join(line[spans[:, 0].min() : spans[:, 1].max()] for spans in found) == " ".join(
            line.replace(",", " , ").replace("<e>", " <e> ").split()
        )


def replace(string, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: string}, "content": content}


def steps(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def many_added(count, size):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": 100 + i, "content": f"{i:x}".rjust(size, "-"), **flags} for i in range(count)]


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
CHARSMAP = base64.b64encode(b"\x08\0\0\0" + b"\xff" * 8 + b"x\0").decode()
LONG_CHARSMAP = base64.b64encode(b"\x04\0\0\0\0\0\0\0" + b"x" * 2000 + b"\0").decode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"vocab": {"rare": 300_000_000}}}, "must have at most 1,000,000 ids without a token; got"),
        ({"model": {"vocab": {"rare": 2**31 - 1}}}, "must have at most 1,000,000 ids without a token; got"),
        ({"added_tokens": many_added(9_999, 1000)}, "must have at most 1,000,000 characters; got 9,999,000"),
        ({"added_tokens": many_added(10_001, 8)}, "must have at most 10,000 tokens; got 10,001"),
        (
            {"normalizer": steps("normalizers", *[replace("a", "a" * 10)] * 4)},
            "the normalizer in .* at most 1,000 .* got 10,000",
        ),
        ({"normalizer": steps("normalizers", *[replace("(?=a)", "a", "Regex")] * 12)}, "the normalizer in .* got 4,096"),
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 1001}}, "the normalizer in .* got 1,001"),
        ({"decoder": steps("decoders", *[replace("a", "aa")] * 11)}, "the decoder in .* at most 1,000 times .* got 2,048"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG_CHARSMAP}}, "the normalizer in .* got 2,000"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "the precompiled_charsmap in .* it is damaged"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": CHARSMAP}}, "tokenizers can run: index out of bounds"),
        (
            {"pre_tokenizer": SPLIT | {"pattern": {"Regex": "(x+x+)+y"}}},
            "retry-limit",
        ),
    ],
)
def test_what_would_take_gigabytes_or_panics_is_one_sentence_with_the_file(tmp_path, change, message):
    values = json.loads(words().to_str())
    for name, value in change.items():
        values[name] = value
    if "model" in change:
        values["model"] = json.loads(words().to_str())["model"]
        values["model"]["vocab"] |= change["model"]["vocab"]
        values["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as error:
        load_tokenizer(tmp_path).encode_batch(["der hund " + "x" * 5000])
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_replacements_in_use_are_allowed():
    rules = [replace(" ", "▁"), replace("``", '"'), *[replace(r" {2,}", " ", "Regex")] * 9, *[replace("x", "y")] * 99]
    values = json.loads(words().to_str())
    values["normalizer"] = steps("normalizers", *rules)
    assert PipelineTokenizer(values).encode_flat(["der"])[0].tolist() == [5]


def test_the_package_alone_is_guarded():
    class PanicError(BaseException):
        pass

    with pytest.raises(PanicError), OneSentence("the file"):
        raise PanicError
    PanicError.__module__, PanicError.__name__ = "pyo3_runtime", "PanicException"
    with (
        pytest.raises(ValueError, match="the file must have rules that the package tokenizers can run: 1 2"),
        OneSentence("the file"),
    ):
        raise PanicError("1\n2")
    with pytest.raises(KeyError), OneSentence("the file"):
        raise KeyError


# The tokenizer of mmBERT, which is that of Gemma 2: encodings, offsets, words, pairs and windows are those of tokenizers.


GEMMA_TEXTS = [
    *small_tokenizers.LINES,
    *small_tokenizers.SENTENCES[:6],
    "a\n\nb  the   boats",
    "<table> in<unused0>the <mask> row<eos>",
    " the harbour ",
    "▁the▁harbour ▁▁",
]
GEMMA_SETTINGS = (
    {},
    {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "add_bos_token": True, "add_eos_token": True},
    {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "<bos>", "sep_token": "<eos>", "mask_token": "<mask>"},
)


@pytest.fixture(scope="module")
def peer():
    return small_tokenizers.gemmas()


@pytest.fixture
def ours(peer, tmp_path):
    peer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"model_type": "modernbert"}')
    return load_tokenizer(tmp_path)


def rows_of(encodings):
    """Ids, segments, offsets and words of some rows of tokenizers."""
    return [(row.ids, row.type_ids, row.offsets, [-1 if word is None else word for word in row.word_ids]) for row in encodings]


def rows_of_ours(encoding):
    """The same of an `Encoding`."""
    offsets = [[*map(tuple, row.tolist())] for row in encoding.offsets]
    ids, segments, words = ([row.tolist() for row in rows] for rows in (encoding.ids, encoding.segments, encoding.word_ids))
    return [*zip(ids, segments, offsets, words, strict=True)]


@pytest.mark.parametrize("settings", GEMMA_SETTINGS, ids=["none", "gemma", "fast"])
def test_the_folder_gives_the_rows_of_the_package(peer, settings, tmp_path):
    peer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, PipelineTokenizer)
    assert (ours.pad_id, ours.sep_id, ours.cls_id, ours.unk_id, ours.mask_id) == (0, 1, 2, 3, 4)
    alone = ours.encode_batch(GEMMA_TEXTS, return_offsets=True, special_tokens_in_text=True)
    assert rows_of_ours(alone) == rows_of(peer.encode_batch(GEMMA_TEXTS))
    pairs = ours.encode_batch(GEMMA_TEXTS, GEMMA_TEXTS[::-1], return_offsets=True, special_tokens_in_text=True)
    assert rows_of_ours(pairs) == rows_of(peer.encode_batch([*zip(GEMMA_TEXTS, GEMMA_TEXTS[::-1], strict=True)]))


def test_letters_outside_the_vocabulary_are_bytes_and_come_back(ours):
    text = "naïve 中文 😀"
    tokens = ours.tokenize(text)
    assert "<0xE4>" in tokens
    assert ours.unk_id not in ours.encode_flat([text])[0].tolist()
    assert ours.decode(ours.encode_flat([text])[0]) == text


def test_special_tokens_in_a_text_are_text_unless_they_are_asked_for(ours):
    assert ours.mask_id not in ours.encode_batch(["the <mask> row"]).ids[0]
    assert ours.mask_id in ours.encode_batch(["the <mask> row"], special_tokens_in_text=True).ids[0]


@pytest.mark.parametrize(("length", "stride"), [(10, 0), (16, 5), (7, 2)])
def test_windows_and_truncation_are_those_of_the_package(ours, length, stride):
    peer = small_tokenizers.gemmas()
    peer.enable_truncation(length, stride=stride)
    for text in small_tokenizers.SENTENCES[:3]:
        row = peer.encode(text)
        windows = ours.encode_batch([text], max_len=length, stride=stride, return_offsets=True)
        assert rows_of_ours(windows) == rows_of([row, *row.overflowing])
        assert rows_of_ours(ours.encode_batch([text], max_len=length, return_offsets=True)) == rows_of([row])
