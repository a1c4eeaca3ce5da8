"""The files of a tokenizer that lie beside a model's weights."""

from keras_bert_rebuild import load_vocabulary
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files


def test_a_vocabulary_with_a_repeated_line_keeps_its_ids(tmp_path):
    path, written = tmp_path / "vocab.txt", tmp_path / "written.txt"
    path.write_text("[PAD]\na\nb\na\nc\n", encoding="utf-8")
    written.write_bytes(vocabulary_files(path, 8)["vocab.txt"])
    assert load_vocabulary(written) == {**load_vocabulary(path), "[gap 1]": 1}
