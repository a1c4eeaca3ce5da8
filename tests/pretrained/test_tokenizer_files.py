"""The tokenizer files next to a model's weights."""

import pytest
from helpers.small_tasks import VOCABULARY, small_encoder
from tokenizers import AddedToken

from keras_bert_rebuild import WordPieceTokenizer, load_vocabulary, save_pretrained
from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files, vocabulary_files


def test_a_vocabulary_with_a_repeated_line_keeps_its_ids(tmp_path):
    path, written = tmp_path / "vocab.txt", tmp_path / "written.txt"
    path.write_text("[PAD]\na\nb\na\nc\n", encoding="utf-8")
    written.write_bytes(vocabulary_files(path, 8)["vocab.txt"])
    assert load_vocabulary(written) == {**load_vocabulary(path), "[gap 1]": 1}


def test_a_link_out_of_a_folder_is_not_read_and_those_of_a_cache_are(tmp_path):
    secret, folder = tmp_path / "secret", tmp_path / "model"
    secret.write_text("a private key")
    folder.mkdir()
    (folder / "vocab.txt").symlink_to(secret)
    with pytest.warns(UserWarning, match=r"vocab\.txt is a link to .*secret, outside its folder, and is skipped"):
        assert read_tokenizer_files(folder) == {}
    cache = tmp_path / "models--google--bert"
    for name in ("blobs", "snapshots/1a"):
        (cache / name).mkdir(parents=True)
    (cache / "blobs" / "0f").write_text("[PAD]")
    (cache / "snapshots" / "1a" / "vocab.txt").symlink_to("../../blobs/0f")
    (cache / "snapshots" / "1a" / "merges.txt").symlink_to(secret)
    with pytest.warns(UserWarning, match=r"merges\.txt is a link"):
        assert read_tokenizer_files(cache / "snapshots" / "1a") == {"vocab.txt": b"[PAD]"}
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "vocab.txt").write_text("[UNK]")
    (shared / "model").mkdir()
    (shared / "model" / "vocab.txt").symlink_to("../vocab.txt")
    assert read_tokenizer_files(shared / "model") == {"vocab.txt": b"[UNK]"}


def test_googles_vocabulary_has_added_tokens_that_no_other_file_names(tmp_path):
    tokenizer = WordPieceTokenizer([*VOCABULARY, "[E1]"], added_tokens=[AddedToken("[E1]", special=True)])
    save_pretrained(small_encoder((), vocab_size=len(tokenizer)), tmp_path / "google", "google", vocabulary=tokenizer)
    assert load_vocabulary(tmp_path / "google" / "vocab.txt") == tokenizer.vocabulary
