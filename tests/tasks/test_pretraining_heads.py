"""The words for masks, and whether a text follows another."""

import numpy as np
import pytest
from helpers.small_tasks import CONFIG, TOKENIZER, VOCABULARY, sentence, small_encoder
from helpers.small_tokenizers import byte_level_bpe

from keras_bert_rebuild import NextSentence, build_model, fill_mask
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer


def answers_of(model, ids, place):
    chosen = np.zeros_like(ids)
    chosen[0, place] = 1
    given = {"Input-Token": ids, "Input-Segment": ids * 0, "Input-Masked": chosen}
    return np.asarray(model.predict([given[tensor.name] for tensor in model.inputs], verbose=0))[0, place]


def test_texts_of_any_length_are_answered_in_order(rng):
    model = small_encoder(["mlm"])
    long = sentence(rng, 60).split()
    long[40] = "[MASK]"
    texts = ["the [MASK] sat on [MASK]", " ".join(long), "[MASK]"]
    got = fill_mask(model, TOKENIZER, texts, top_k=2, batch_size=2)
    assert [len(of_text) for of_text in got] == [2, 1, 1]
    by_vocabulary = fill_mask(model, {token: i for i, token in enumerate(VOCABULARY)}, texts[0], top_k=2)
    assert [[token for token, _ in of_mask] for of_mask in by_vocabulary] == [[token for token, _ in of_mask] for of_mask in got[0]]
    probabilities = answers_of(model, np.array([[2, 5, 4, 8, 9, 4, 3]]), 2)
    assert [token for token, _ in got[0][0]] == [VOCABULARY[i] for i in np.argsort(-probabilities)[:2]]
    assert [p for _, p in got[0][0]] == pytest.approx(np.sort(probabilities)[::-1][:2], abs=1e-5)
    # Windows of 40 that share 10: the second starts at word 28 and has the most context around word 40.
    row = np.array([[2, *(VOCABULARY.index(word) for word in long[28:60]), 3]])
    assert got[1][0][0][1] == pytest.approx(answers_of(model, row, 13).max(), abs=1e-5)


def test_a_tokenizer_of_another_kind_has_its_own_mask_token(tmp_path):
    byte_level_bpe(tmp_path)
    tokenizer = ByteLevelBPETokenizer.from_pretrained(tmp_path)
    model = small_encoder(["mlm"], vocab_size=420, family="roberta", position_offset=2, pad_token_id=1, type_vocab_size=1)
    answer = fill_mask(model, tokenizer, "The harbour was<mask>.", top_k=3)
    assert [len(of_mask) for of_mask in answer] == [3]
    ids = tokenizer.encode_batch(["The harbour was<mask>."], special_tokens_in_text=True).ids[0]
    place = int(np.flatnonzero(ids == tokenizer.mask_id)[0])
    probabilities = answers_of(model, ids[None], place)
    assert [p for _, p in answer[0]] == pytest.approx(np.sort(probabilities)[::-1][:3], abs=1e-5)
    with pytest.raises(ValueError, match="at least one <mask>; got 'The \\[MASK\\]'"):
        fill_mask(model, tokenizer, "The [MASK]")


def test_padding_may_be_given_by_a_separate_input():
    model = small_encoder(["mlm"])
    masked = build_model(CONFIG, ["mlm"], padding_mask=True)
    values = {variable.path: variable.numpy() for variable in model.weights}
    for variable in masked.weights:
        variable.assign(values[variable.path])
    texts = ["the [MASK] sat", "the cat sat on the red [MASK] in london"]
    for one, other in zip(fill_mask(model, TOKENIZER, texts), fill_mask(masked, TOKENIZER, texts), strict=True):
        assert [token for token, _ in one[0]] == [token for token, _ in other[0]]
        assert [p for _, p in one[0]] == pytest.approx([p for _, p in other[0]], abs=1e-5)


def test_bad_input_is_one_sentence():
    model = small_encoder(["mlm"])
    for arguments, message in (
        ((model, TOKENIZER, ["a [MASK]", "a"]), r"at least one \[MASK\]; got 'a'"),
        ((model, TOKENIZER, []), "at least one"),
        ((model, TOKENIZER, "a [MASK]", 0), "top_k must be at least 1; got 0"),
        ((model, TOKENIZER, "a [MASK]", 5, False, -1), "batch_size must be at least 1; got -1"),
        ((small_encoder(["nsp"]), TOKENIZER, "a [MASK]"), "must have an MLM head; its outputs are NSP"),
    ):
        with pytest.raises(ValueError, match=message):
            fill_mask(*arguments)


def test_probabilities_are_those_of_the_model_in_the_order_of_the_pairs(rng):
    model = small_encoder(["nsp"])
    score = NextSentence(model, TOKENIZER)
    firsts, seconds = ([sentence(rng, words) for words in side] for side in ((3, 12, 1), (4, 9, 20)))
    got = score(firsts, seconds, batch_size=2)
    for first, second, probability in zip(firsts, seconds, got, strict=True):
        row = TOKENIZER.encode_batch([first], [second])
        answer = np.asarray(model.predict([row.ids[0][None], row.segments[0][None]], verbose=0))[0]
        assert probability == pytest.approx(answer[0], abs=1e-6)
        assert 0 < probability < 1


@pytest.mark.parametrize(("words", "kept"), [((50, 50), (17, 16)), ((50, 3), (30, 3)), ((3, 50), (3, 30))])
def test_long_pairs_retain_the_tokens_next_to_each_other(rng, words, kept):
    score = NextSentence(small_encoder(["nsp"]), TOKENIZER, max_len=36)
    first, second = (sentence(rng, n) for n in words)
    encoding = score._encoding([first], [second])
    ids, segments = encoding.ids[0], encoding.segments[0]
    assert TOKENIZER.decode(ids[segments == 0]) == " ".join(first.split()[-kept[0] :])
    assert TOKENIZER.decode(ids[segments == 1]) == " ".join(second.split()[: kept[1]])
    assert len(ids) == 36
    assert score([first], [second]).shape == (1,)


def test_pairs_that_make_no_sense_are_one_sentence():
    with pytest.raises(ValueError, match="must have the head nsp and no other; it has pooler"):
        NextSentence(small_encoder(["pooler"]), TOKENIZER)
    for max_len in (7, 41):
        with pytest.raises(ValueError, match=f"max_len must be from 8 to 40, the positions of the model; got {max_len}"):
            NextSentence(small_encoder(["nsp"]), TOKENIZER, max_len=max_len)
    score = NextSentence(small_encoder(["nsp"]), TOKENIZER)
    with pytest.raises(ValueError, match="as many second texts as first ones, 1; got 2"):
        score(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="firsts must be a list"):
        score("a", "b")
