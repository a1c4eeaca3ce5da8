"""What an index lacks of judged documents."""

import pytest

from keras_bert_rebuild.search import retrievers
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.retrievers import missing_judged


@pytest.mark.parametrize("part", [1, 2, 1000])
def test_judged_documents_that_are_missing_are_listed_once(tmp_path, monkeypatch, part):
    monkeypatch.setattr(retrievers, "_JUDGED", part)
    texts, numbers = Index.open(tmp_path / "texts"), Index.open(tmp_path / "numbers")
    judgements = {"q": {"7": 1, "x": 1, "a": 0}, "r": {"x": 0, "y": 1, "007": 1, "8": 2}}
    assert missing_judged(texts, judgements) == ["7", "x", "a", "y", "007", "8"]
    texts.add([{"id": name, "text": "x"} for name in ("a", "7", "b", "'")])
    numbers.add([{"id": name, "text": "x"} for name in (7, 8, 9)])
    assert missing_judged(texts, judgements) == ["x", "y", "007", "8"]
    assert missing_judged(numbers, judgements) == ["x", "a", "y", "007"]
    assert missing_judged(texts, {}) == []
