"""TensorBoard reads the numbers that were written."""

import pytest

from keras_bert_rebuild.recipes.metrics_table import TensorBoardLog, tensorboard_is_installed


@pytest.mark.skipif(not tensorboard_is_installed(), reason="tensorboard is not installed")
def test_numbers_are_read_back_by_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = TensorBoardLog(tmp_path)
    log.write(3, {"loss": 2.5, "accuracy": None})
    log.write(6, {"loss": 1.5})
    log.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 2.5), (6, 1.5)]
