"""`SentencePieceTokenizer` against the sentencepiece package, and its offsets."""

import importlib.util
import json
import pickle
import unicodedata

import numpy as np
import pytest
from helpers import small_tokenizers

sentencepiece = pytest.importorskip("sentencepiece")

from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer  # noqa: E402

PLAIN = [*small_tokenizers.LINES, *small_tokenizers.SENTENCES[:6]]


@pytest.fixture(scope="module")
def models():
    return {family: small_tokenizers.sentencepiece(family) for family in ("albert", "xlm_roberta", "deberta_v2")}


@pytest.fixture(params=["albert", "xlm_roberta", "deberta_v2"])
def tokenizer(request, models):
    return SentencePieceTokenizer(models[request.param], request.param)


def alberts(model, text):
    """ALBERT's algorithm, one text at a time, as pieces."""
    text = " ".join(text.strip().split()).replace("``", '"').replace("''", '"')
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    pieces = []
    for piece in model.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            anew = model.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and anew[0][0] == "▁":
                anew = anew[1:] if len(anew[0]) == 1 else [anew[0][1:], *anew[1:]]
            pieces += [*anew, ","]
        else:
            pieces.append(piece)
    return pieces


def test_alberts_ids_are_those_of_its_algorithm(models):
    # In a larger vocabulary "2007," may be one piece.
    sentences = [f"in 2007, and 1996, and 9, then {n}," for n in range(40)] * 5
    larger = small_tokenizers.sentencepiece("albert", sentences, vocab_size=60, split_by_number=False)
    for file in (models["albert"], larger):
        model = sentencepiece.SentencePieceProcessor(model_proto=file)
        tokenizer = SentencePieceTokenizer(file, "albert")
        assert [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.unk_id, tokenizer.mask_id] == [2, 3, 0, 1, 4]
        for line in [*PLAIN, "in 2007, and 1996, 9,"]:
            assert tokenizer.encode_flat([line])[0].tolist() == [model.piece_to_id(piece) for piece in alberts(model, line)]


def test_a_comma_after_a_digit_is_a_separate_token():
    sentences = ["in 2007, and 2007, x"] * 30
    file = small_tokenizers.sentencepiece("albert", sentences, vocab_size=40, user_defined_symbols=["7,"])
    tokenizer = SentencePieceTokenizer(file, "albert")
    assert "7," in sentencepiece.SentencePieceProcessor(model_proto=file).encode("in 2007, x", out_type=str)
    encoding = tokenizer.encode_batch(["in 2007, x"], return_offsets=True, pad_to="longest")
    tokens = [tokenizer.tokens[i] for i in encoding.ids[0].tolist()]
    assert tokens[-4:-1] != ["7,", "▁", "x"]
    assert "7," not in tokens
    assert [8, 9] not in encoding.offsets.tolist()
    assert [7, 8] in encoding.offsets[0].tolist()


def test_xlm_robertas_ids_are_one_above_the_models(models):
    model = sentencepiece.SentencePieceProcessor(model_proto=models["xlm_roberta"])
    tokenizer = SentencePieceTokenizer(models["xlm_roberta"], "xlm_roberta")
    assert [tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id, tokenizer.unk_id] == [0, 1, 2, 3]
    assert tokenizer.mask_id == len(model) + 1 == len(tokenizer) - 1
    for line in PLAIN:
        expected = [i + 1 if i else 3 for i in model.encode(line)]
        assert tokenizer.encode_batch([line], pad_to="longest").ids[0].tolist() == [0, *expected, 2]


def test_debertas_ids_are_the_models_and_the_mask_is_last(models):
    model = sentencepiece.SentencePieceProcessor(model_proto=models["deberta_v2"])
    tokenizer = SentencePieceTokenizer(models["deberta_v2"], "deberta_v2")
    assert [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.unk_id] == [0, 1, 2, 3]
    assert tokenizer.mask_id == len(model) == len(tokenizer) - 1
    for line in PLAIN:
        assert tokenizer.encode_batch([line], pad_to="longest").ids[0].tolist() == [1, *model.encode(line), 2]


def test_pairs_are_as_the_family_has_them(tokenizer):
    encoding = tokenizer.encode_batch(["the harbour"], ["the letters"], pad_to="longest")
    first, second = (tokenizer.encode_flat([text])[0].tolist() for text in ("the harbour", "the letters"))
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    albert = tokenizer.family != "xlm_roberta"
    assert encoding.ids[0].tolist() == [cls, *first, *([sep] if albert else [sep, sep]), *second, sep]
    assert encoding.segments[0].tolist() == (
        [0] * (len(first) + 2) + [1] * (len(second) + 1) if albert else [0] * encoding.ids.size
    )


def test_the_slice_of_every_token_normalised_is_the_token(tokenizer):
    encoding = tokenizer.encode_batch(PLAIN, return_offsets=True, pad_to=None)
    plain = tokenizer.encode_batch(PLAIN, pad_to=None)
    for text, ids, same, offsets, words in zip(PLAIN, encoding.ids, plain.ids, encoding.offsets, encoding.word_ids, strict=True):
        assert ids.tolist() == same.tolist()
        assert (np.diff(offsets[1:-1], axis=0) >= 0).all()
        for i, (start, stop) in zip(ids[1:-1].tolist(), offsets[1:-1].tolist(), strict=True):
            token = tokenizer.tokens[i].removeprefix("▁")
            if i == tokenizer.unk_id:
                assert stop > start
                continue
            found = unicodedata.normalize("NFKC", text[start:stop])
            if tokenizer.family == "albert":
                found = "".join(c for c in unicodedata.normalize("NFKD", found) if not unicodedata.combining(c))
                found = found.lower().replace("``", '"').replace("''", '"').replace("ς", "σ")
            # A character that becomes several may belong to two pieces.
            shared = any(len(unicodedata.normalize("NFKC", text[place])) > 1 for place in (start, stop - 1))
            assert found == token or (shared and token in found)
        assert words.max() <= len(text.split())


def test_offsets_are_exact(models):
    tokenizer = SentencePieceTokenizer(models["albert"], "albert")
    text = "  Thé ``HARBOUR''  "
    encoding = tokenizer.encode_batch([text], return_offsets=True, pad_to="longest")
    places = encoding.offsets[0, 1:-1].tolist()
    assert places[0][0] == 2
    assert places[-1] == [15, 17]
    words = encoding.word_ids[0, 1:-1]
    assert text[min(p[0] for p, w in zip(places, words, strict=True) if w == 0) :][:3] == "Thé"
    assert set(words.tolist()) == {0, 1}


def test_special_tokens_in_text_are_text_by_default(tokenizer):
    mask = tokenizer.tokens[tokenizer.mask_id]
    text = f"the {mask} was"
    assert tokenizer.mask_id not in tokenizer.encode_batch([text], pad_to="longest").ids
    encoding = tokenizer.encode_batch([text], special_tokens_in_text=True, return_offsets=True, pad_to="longest")
    (column,) = np.flatnonzero(encoding.ids[0] == tokenizer.mask_id)
    start, stop = encoding.offsets[0, column]
    assert text[start:stop] == mask
    assert encoding.ids[0, 1:-1].tolist() == [
        *tokenizer.encode_flat(["the"])[0],
        tokenizer.mask_id,
        *tokenizer.encode_flat(["was"])[0],
    ]


def test_a_model_that_reads_special_tokens_itself_refuses_them():
    file = small_tokenizers.sentencepiece("albert", control_symbols=["[CLS]", "[SEP]"], user_defined_symbols=["[MASK]"])
    tokenizer = SentencePieceTokenizer(file, "albert", lower=False)
    with pytest.raises(ValueError, match=r"texts must not contain \[MASK\]"):
        tokenizer.encode_batch(["the [MASK]"], pad_to="longest")
    assert 4 in tokenizer.encode_batch(["the [MASK]"], special_tokens_in_text=True, pad_to="longest").ids


def test_lists_of_words_have_word_numbers(tokenizer):
    encoding = tokenizer.encode_batch([["the", "", "letters,"], []], is_pretokenized=True, pad_to="longest")
    assert {int(word) for word in encoding.word_ids[0]} == {-1, 0, 2}
    assert encoding.word_ids[1].max() == -1


def test_decode_joins_the_pieces(tokenizer):
    text = "the harbour was quiet, and the gulls stood"
    assert tokenizer.decode(tokenizer.encode_batch([text], pad_to="longest").ids[0]) == text
    cls, sep = tokenizer.tokens[tokenizer.cls_id], tokenizer.tokens[tokenizer.sep_id]
    assert tokenizer.decode(tokenizer.encode_batch([text], pad_to="longest").ids[0], False) == f"{cls} {text} {sep}"


def test_case_and_accents_are_read_from_the_folder(models, tmp_path):
    (tmp_path / "spiece.model").write_bytes(models["albert"])
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
    tokenizer = SentencePieceTokenizer.from_pretrained(tmp_path)
    assert (tokenizer.lower, tokenizer.strip_accents) == (False, False)
    assert SentencePieceTokenizer.from_pretrained(tmp_path, lower=True).lower


@pytest.mark.parametrize("kind", ["albert", "xlm_roberta", "deberta_v2"])
def test_tokens_that_a_folder_adds_are_single_tokens(kind, models, tmp_path):
    plain = SentencePieceTokenizer(models[kind], kind)
    size = len(plain)
    (tmp_path / {"albert": "spiece.model", "xlm_roberta": "sentencepiece.bpe.model", "deberta_v2": "spm.model"}[kind]).write_bytes(
        models[kind]
    )
    special = {plain.tokens[i]: i for i in plain.special_ids}
    (tmp_path / "added_tokens.json").write_text(json.dumps({**special, "<date>": size + 1, "C++": size}))
    tokenizer = SentencePieceTokenizer.from_pretrained(tmp_path)
    assert (tokenizer.added_tokens, len(tokenizer)) == (("C++", "<date>"), size + 2)
    for copy in (tokenizer, pickle.loads(pickle.dumps(tokenizer))):
        assert copy.tokenize("the lamp<date>C++") == [*plain.tokenize("the lamp"), "<date>", "C++"]
        assert ("C++" in copy.tokenize("c++")) == (kind == "albert")
    assert SentencePieceTokenizer.from_pretrained(tmp_path, added_tokens={}).tokens == plain.tokens


@pytest.mark.parametrize("added", [{"a new one": 7}, {"<pad>": 99}, {"x y": 99, "y z": 99}, {"": 99}])
def test_added_tokens_have_their_own_ids(models, added):
    with pytest.raises(ValueError, match="added_tokens must be strings with unique ids; got"):
        SentencePieceTokenizer(models["albert"], "albert", added_tokens=added)


def test_a_tokenizer_is_pickled_to_other_processes(tokenizer):
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other.encode_batch(PLAIN, pad_to="longest").ids.tolist() == tokenizer.encode_batch(PLAIN, pad_to="longest").ids.tolist()


def test_empty_texts_give_empty_rows(tokenizer):
    assert tokenizer.encode_batch([], pad_to="longest").ids.shape == (0, 0)
    assert tokenizer.encode_batch(["", " "], return_offsets=True, pad_to="longest").ids.shape == (2, 2)


def test_wrong_input_is_refused_in_a_sentence(models, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="family must be albert or xlm_roberta or deberta_v2 or xlnet; got 't5'"):
        SentencePieceTokenizer(models["albert"], "t5")
    with pytest.raises(ValueError, match="first pieces of the model must be <unk>, <s>, </s>; got <pad>"):
        SentencePieceTokenizer(models["albert"], "xlm_roberta")
    with pytest.raises(ValueError, match=r"must have \[CLS\].*; got one without"):
        SentencePieceTokenizer(models["xlm_roberta"], "albert")
    with pytest.raises(ValueError, match="must not change texts"):
        SentencePieceTokenizer(models["xlm_roberta"], "xlm_roberta", lower=True)
    with pytest.raises(ValueError, match=r"no\.model; it does not exist"):
        SentencePieceTokenizer(tmp_path / "no.model", "albert")
    with pytest.raises(ValueError, match="must be a file of that format"):
        SentencePieceTokenizer(b"nonsense", "albert")
    with pytest.raises(ValueError, match="texts must be Unicode"):
        SentencePieceTokenizer(models["albert"], "albert").encode_batch(["\udfff"], pad_to="longest")
    with pytest.raises(ValueError, match="no byte pieces"):
        SentencePieceTokenizer(small_tokenizers.sentencepiece("albert", byte_fallback=True, vocab_size=400), "albert")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="needs sentencepiece, which is not installed"):
        SentencePieceTokenizer(models["albert"], "albert")
