"""Writing safetensors files."""

import numpy as np
import pytest
from safetensors import SafetensorError

from keras_bert_rebuild.checkpoints import safetensors_files
from keras_bert_rebuild.checkpoints.safetensors_files import write_safetensors

pytestmark = pytest.mark.backend


def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device (os error 28)")

    monkeypatch.setattr(safetensors_files, "save_file", full)
    with pytest.raises(OSError, match=f"^{tmp_path} cannot be written: No space left on device"):
        write_safetensors(tmp_path, [("a", np.zeros(3))])
