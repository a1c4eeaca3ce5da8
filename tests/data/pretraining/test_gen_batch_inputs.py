"""`gen_batch_inputs` draws what keras_bert draws."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild import gen_batch_inputs, get_base_dict

PAIRS = [
    [["the", "sun", "rises"], ["and", "sets", "again"]],
    [["one", "two", "three", "four", "five"], ["six", "seven"]],
    [["left"], ["right", "and", "centre"]],
    [["up", "down"], ["strange", "charm", "oov"]],
]
TOKENS = get_base_dict()
for _first, _second in PAIRS:
    for _token in _first + _second:
        if _token != "oov":
            TOKENS.setdefault(_token, len(TOKENS))


def written_out(pairs, token_dict, token_list, seq_len, mask_rate, mask_mask_rate, mask_random_rate, swap_rate, force_mask):
    """The steps of keras_bert 0.89, draw by draw."""
    base = set(get_base_dict())
    source = {}
    if swap_rate > 0:
        drawn = [i for i in range(len(pairs)) if np.random.random() < swap_rate]
        shuffled = list(drawn)
        np.random.shuffle(shuffled)
        source = dict(zip(drawn, shuffled, strict=True))
    rows = []
    for i, (first, _) in enumerate(pairs):
        second = pairs[source.get(i, i)][1]
        tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"][:seq_len]
        tokens += [""] * (seq_len - len(tokens))
        segments = ([0] * (len(first) + 2) + [1] * seq_len)[:seq_len]
        inputs, labels, masked = [], [], []
        for token in tokens:
            labels.append(token_dict.get(token, token_dict["[UNK]"]))
            inputs.append(labels[-1])
            masked.append(0)
            if token not in base and np.random.random() < mask_rate:
                masked[-1] = 1
                r = np.random.random()
                if r < mask_mask_rate:
                    inputs[-1] = token_dict["[MASK]"]
                elif r < mask_mask_rate + mask_random_rate:
                    while (word := token_list[np.random.randint(0, len(token_list))]) in base:
                        pass
                    inputs[-1] = token_dict[word]
        if force_mask and not any(masked):
            masked[1] = 1
        rows.append((inputs, segments, masked, labels, float(source.get(i, i) != i)))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("seq_len", [7, 12])
def test_the_same_seed_gives_the_batch_of_keras_bert(seed, seq_len):
    arguments = (seq_len, 0.4, 0.6, 0.3, 0.7, True)
    np.random.seed(seed)
    expected = written_out(PAIRS, TOKENS, list(TOKENS), *arguments)
    np.random.seed(seed)
    (ids, segments, masked), (labels, nsp) = gen_batch_inputs(PAIRS, TOKENS, list(TOKENS), *arguments)
    for got, want in zip((ids, segments, masked, labels[..., 0], nsp[:, 0]), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    assert np.random.random() == pytest.approx(_next_draw(seed, arguments))


def _next_draw(seed, arguments):
    np.random.seed(seed)
    written_out(PAIRS, TOKENS, list(TOKENS), *arguments)
    return np.random.random()


def test_batches_are_tuples_where_tensorflow_needs_them():
    inputs, outputs = gen_batch_inputs(PAIRS, TOKENS, list(TOKENS), seq_len=9)
    expected = tuple if keras.backend.backend() == "tensorflow" else list
    assert type(inputs) is type(outputs) is expected
    assert outputs[0].shape == (4, 9, 1)
    assert outputs[1].shape == (4, 1)


def test_padding_has_the_id_of_pad_in_googles_vocabularies():
    google = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "left": 5, "right": 6}
    ids = gen_batch_inputs([PAIRS[2]], google, list(google), seq_len=12, mask_rate=0.0)[0][0]
    assert ids[0].tolist() == [2, 5, 3, 6, 1, 1, 3, 0, 0, 0, 0, 0]


def test_random_replacements_are_never_special():
    google = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "left": 5, "right": 6}
    for _ in range(20):
        (ids, _, masked), _ = gen_batch_inputs(
            PAIRS, google, list(google), 12, mask_rate=1.0, mask_mask_rate=0.0, mask_random_rate=1.0
        )
        assert set(ids[masked == 1].tolist()) <= {5, 6}


@pytest.mark.parametrize(
    ("pairs", "arguments", "message"),
    [
        ([], {}, "at least one pair"),
        ([["the sun", ["rises"]]], {}, r"sentence_pairs\[0\] must have lists of tokens; got the string 'the sun'"),
        ([*PAIRS, [["one"]]], {}, r"sentence_pairs\[4\] must have two sentences; got 1"),
        (PAIRS, {"seq_len": 1}, "seq_len must be at least 2"),
        (PAIRS, {"token_list": ["", "[MASK]"], "mask_rate": 1.0, "mask_mask_rate": 0.0, "mask_random_rate": 1.0}, "not special"),
    ],
)
def test_bad_input_is_one_sentence(pairs, arguments, message):
    arguments = {"token_list": list(TOKENS), "seq_len": 9, **arguments}
    with pytest.raises(ValueError, match=message):
        gen_batch_inputs(pairs, TOKENS, **arguments)


def test_sentences_may_be_tuples():
    gen_batch_inputs([(("left",), ("right",))], TOKENS, list(TOKENS), seq_len=8)
