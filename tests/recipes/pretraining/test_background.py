"""A run trains while its corpus is verified and its held-out text is compared, and ends with the error of either."""

import threading

import keras
import pytest
import yaml
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.recipes.pretraining import pretrain as module
from keras_bert_rebuild.recipes.pretraining.background import Background
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain

TINY = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
SETTINGS = {"model": TINY, "steps": 4, "batch_size": 2, "seq_len": 16, "log_steps": 2, "evaluate_steps": 4, "evaluation_steps": 1}


class Verified:
    """A corpus whose verification waits for an event."""

    def __init__(self, corpus, event, error=None):
        self._corpus, self._event, self._error = corpus, event, error

    def __getattr__(self, name):
        return getattr(self._corpus, name)

    def verify(self):
        self._event.wait()
        if self._error is not None:
            raise self._error


class FirstStep(keras.callbacks.Callback):
    reads_logs_itself = True

    def __init__(self, event):
        super().__init__()
        self.event = event

    def on_train_batch_end(self, batch, logs=None):
        self.event.set()


@pytest.fixture
def event(monkeypatch):
    monkeypatch.setattr(module, "_WAITS", 0.01)
    return threading.Event()


@pytest.fixture(scope="module")
def corpus():
    return small_corpus(documents=40, passages=4, longest=6)


def test_the_first_step_waits_neither_for_the_verification_nor_for_the_comparison(corpus, event, monkeypatch, tmp_path):
    unseen = module.unseen
    monkeypatch.setattr(module, "unseen", lambda *parts: event.wait() and unseen(*parts))
    rows = []
    pretrain(Verified(corpus, event), tmp_path / "run", SETTINGS, held_out=0.1, callbacks=[FirstStep(event)], report=rows.append)
    assert [row.get("held_out_loss") is not None for row in rows] == [False, False, True]
    (start,) = yaml.safe_load((tmp_path / "run" / "versions.yaml").read_text())["starts"]
    assert start["held_out"] == {"documents": 4, "passages": 16, "repeated": 0.0}


def test_a_corpus_that_was_changed_ends_the_run_without_a_model(corpus, event, tmp_path):
    changed = Verified(corpus, event, ValueError("it was changed"))
    with pytest.raises(ValueError, match="it was changed"):
        pretrain(changed, tmp_path / "run", SETTINGS, held_out=0, callbacks=[FirstStep(event)])
    assert not (tmp_path / "run" / "model").exists()


def test_held_out_text_that_is_all_in_training_is_an_error_before_a_file_is_written(tmp_path):
    repeated = small_corpus(documents=40, passages=4, longest=6)
    repeated.ids[:] = 7
    with pytest.raises(ValueError, match="expected at least 2 held-out documents"):
        pretrain(repeated, tmp_path / "run", SETTINGS, held_out=0.1)
    assert not (tmp_path / "run" / "settings.yaml").exists()


def test_a_value_is_waited_for_while_asked_to():
    event = threading.Event()
    slow = Background(lambda: event.wait() and 5)
    assert slow.value(goes_on=lambda: False) is None
    event.set()
    assert slow.value() == 5
    assert slow.is_done()
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 / 0).value()
