"""Free memory, as the system reports it."""

import pytest

from keras_bert_rebuild.models import memory

pytestmark = pytest.mark.backend


@pytest.mark.parametrize(("limit", "free"), [(1000, 700), (300, 0)])
def test_the_file_cache_of_a_container_counts_as_free(limit, free, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    kinds = "anon 250\nfile 650\nactive_file 200\ninactive_file 400\nslab 0\n"
    for name, text in (("max", f"{limit}\n"), ("current", "900\n"), ("stat", kinds)):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.available_bytes() == free
