"""Labels of words as labels of tokens."""

import pytest

from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.text.segmented import align_labels, is_first_piece

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "jo", "##hn", "in", "par", "##is"])


def test_the_first_piece_has_the_label_or_every_piece_has_it():
    words = TOKENIZER.encode_batch([["john", "in", "paris"], ["in"]], is_pretokenized=True, pad_to="longest").word_ids
    labels = [[1, 0, 2], [0]]
    none = -100
    assert align_labels(words, labels).tolist() == [[none, 1, none, 0, 2, none, none], [none, 0, *[none] * 5]]
    assert align_labels(words, labels, ignored=-1, label_all_pieces=True).tolist()[0] == [-1, 1, 1, 0, 2, 2, -1]
    assert is_first_piece(words).sum(1).tolist() == [3, 1]


def test_words_cut_off_have_no_label():
    words = TOKENIZER.encode_batch([["john", "in", "paris"]], is_pretokenized=True, max_len=5, pad_to="longest").word_ids
    assert align_labels(words, [[1, 0, 2]]).tolist() == [[-100, 1, -100, 0, -100]]


def test_a_word_without_a_label_is_refused():
    words = TOKENIZER.encode_batch([["john", "in"]], is_pretokenized=True, pad_to="longest").word_ids
    with pytest.raises(ValueError, match="row 0 has 2 words and 1 labels"):
        align_labels(words, [[1]])
    with pytest.raises(ValueError, match="labels must be given for 1 rows; got 2"):
        align_labels(words, [[1, 2], [3]])
    with pytest.raises(ValueError, match="word_ids must be rows of one length"):
        align_labels([[-1, 0, -1], [-1, -1]], [[1], []])
