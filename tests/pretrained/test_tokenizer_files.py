"""The files of a tokenizer that lie beside a model's weights."""

from small_tasks import VOCABULARY, small_encoder
from tokenizers import AddedToken

from keras_bert_rebuild import WordPieceTokenizer, load_vocabulary, save_pretrained
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files


def test_a_vocabulary_with_a_repeated_line_keeps_its_ids(tmp_path):
    path, written = tmp_path / "vocab.txt", tmp_path / "written.txt"
    path.write_text("[PAD]\na\nb\na\nc\n", encoding="utf-8")
    written.write_bytes(vocabulary_files(path, 8)["vocab.txt"])
    assert load_vocabulary(written) == {**load_vocabulary(path), "[gap 1]": 1}


def test_googles_vocabulary_has_the_added_tokens_that_no_other_file_names(tmp_path):
    tokenizer = WordPieceTokenizer([*VOCABULARY, "[E1]"], added_tokens=[AddedToken("[E1]", special=True)])
    save_pretrained(small_encoder((), vocab_size=len(tokenizer)), tmp_path / "google", "google", vocabulary=tokenizer)
    assert load_vocabulary(tmp_path / "google" / "vocab.txt") == tokenizer.vocabulary
