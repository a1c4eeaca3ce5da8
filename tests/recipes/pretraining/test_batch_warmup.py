"""Growing batches: phases of one length, each of which continues after the examples of the previous phase."""

import numpy as np
import pytest
from helpers import small_runs
from helpers.small_corpus import small_corpus

from keras_bert_rebuild.data.pretraining.pretraining_batches import PretrainingBatches
from keras_bert_rebuild.recipes.pretraining import training_run
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

GROWING = {
    **small_runs.FOUR_STEPS,
    "batch_size": 8,
    "batch_warmup": [2, 4],
    "batch_warmup_steps": 2,
    "gradient_accumulation_steps": 2,
}


def test_the_sizes_have_equal_shares_of_the_warmup():
    settings = PretrainSettings(steps=100, batch_size=32, batch_warmup=[8, 16], batch_warmup_steps=30)
    assert [(phase.steps, phase.batch_size, phase.seq_len) for phase in settings.all_phases] == [
        (15, 8, 128),
        (15, 16, 128),
        (70, 32, 128),
    ]
    tenth = PretrainSettings(steps=100, batch_warmup=[8, 16, 24])
    assert [phase.steps for phase in tenth.all_phases] == [3, 4, 3, 90]
    assert settings.resolved()["warmup_steps"] == 10
    assert "batch_warmup" not in settings.resolved()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_warmup_steps": 5}, "needs the sizes in batch_warmup"),
        ({"batch_warmup": 8}, "batch_warmup must be a list"),
        ({"batch_warmup": [0]}, "batch_warmup must be whole numbers of at least 1"),
        ({"batch_warmup": [8, 16], "steps": 10}, "batch_warmup_steps must be from 2, one for each size of batch_warmup, to 9"),
        ({"batch_warmup": [8], "steps": 10, "batch_warmup_steps": 10}, "to 9, all steps but one; got 10"),
        ({"batch_warmup": [8], "phases": [{"steps": 1, "batch_size": 2, "seq_len": 16}]}, "must be left out with phases"),
        ({"batch_warmup": [8], "minutes": 2, "batch_warmup_steps": 3}, "batch_warmup_steps must be left out with minutes"),
        ({"batch_warmup": [7], "gradient_accumulation_steps": 2}, "must be a multiple of gradient_accumulation_steps=2; got 7"),
    ],
)
def test_sizes_that_cannot_be_are_errors(settings, said):
    with pytest.raises(ValueError, match=said):
        PretrainSettings(**settings)


def test_batches_may_begin_with_any_example():
    corpus = small_corpus()
    whole, later = (PretrainingBatches(corpus, 4, 16, 4, first_example=first, steps_per_epoch=9) for first in (0, 8))
    for (x, y), (later_x, later_y) in ((whole.batch(0, i + 2), later.batch(0, i)) for i in range(3)):
        for one, other in zip((*x, *y), (*later_x, *later_y), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_run_sees_every_example_once_and_is_resumed_bit_by_bit(monkeypatch, corpus, tmp_path):
    seen, made = [], training_run.SpanOfBatches.batch

    def noting(self, epoch, index):
        data = self._batches
        seen.extend(data._positions(0, self._start + index))
        return made(self, epoch, index)

    monkeypatch.setattr(training_run.SpanOfBatches, "batch", noting)
    whole = small_runs.whole_run(corpus, tmp_path / "run", {**GROWING, "evaluate_steps": 2})
    assert list(dict.fromkeys(seen)) == list(range(2 + 4 + 8 + 8))
    assert [row["phase"] for row in whole[1][1:]] == [0, 1, 2]
    small_runs.check_resumption(whole, corpus, tmp_path / "resumed", {**GROWING, "evaluate_steps": 2})
