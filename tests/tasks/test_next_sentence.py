"""Whether one text follows another."""

import numpy as np
import pytest
from helpers.small_tasks import TOKENIZER, sentence, small_encoder

from keras_bert_rebuild import NextSentence


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


def test_bad_input_is_one_sentence():
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
