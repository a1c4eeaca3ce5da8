"""The tokenizer of a task is the given one, before and after saving."""

import pytest
from helpers import given_tokenizers
from helpers.small_tasks import VOCABULARY, small_encoder

from keras_bert_rebuild import QuestionAnswerer, TextClassifier, WordPieceTokenizer, from_pretrained, load_task, load_tokenizer
from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained

KINDS = pytest.mark.parametrize("kind", given_tokenizers.KINDS, ids=lambda kind: kind.__name__)


def rows(tokenizer):
    return [row.tolist() for row in tokenizer.encode_batch(given_tokenizers.TEXTS, special_tokens_in_text=True).ids]


@KINDS
def test_a_given_tokenizer_is_loaded_with_the_task(tmp_path, kind):
    tokenizer, encoder = given_tokenizers.given(kind, tmp_path)
    task = TextClassifier.from_encoder(encoder, tokenizer, labels=("a", "b"))
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.tokenizer == task.tokenizer
    assert rows(again.tokenizer) == rows(tokenizer)
    assert str(again(given_tokenizers.TEXTS)) == str(task(given_tokenizers.TEXTS))


@KINDS
def test_a_given_tokenizer_is_saved_by_save_pretrained(tmp_path, kind):
    tokenizer, encoder = given_tokenizers.given(kind, tmp_path)
    save_pretrained(encoder, tmp_path / "folder", vocabulary=tokenizer)
    assert load_tokenizer(tmp_path / "folder") == tokenizer
    # It has priority over the files of a model.
    other = from_pretrained(tmp_path / "folder")
    save_pretrained(other, tmp_path / "other")
    assert load_tokenizer(tmp_path / "other") == tokenizer


def test_a_wordpiece_roberta_of_one_segment_takes_pairs(tmp_path):
    vocabulary = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *VOCABULARY[5:]]
    family = given_tokenizers.ROBERTA | {"vocab_size": len(vocabulary)}
    tokenizer = WordPieceTokenizer(vocabulary)
    answerer = QuestionAnswerer.from_encoder(small_encoder(**family), tokenizer, max_len=38)
    assert answerer.tokenizer.second_segment == 0
    answers = answerer(["who", "where"], "anna sat on the mat in paris")
    answerer.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.tokenizer == answerer.tokenizer
    assert str(again(["who", "where"], "anna sat on the mat in paris")) == str(answers)
    assert load_tokenizer(tmp_path / "task").second_segment == 0
