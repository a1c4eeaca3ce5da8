"""Short rows before long ones: phases of packed rows, each evaluated at its own length, resumed exactly between them."""

import csv

import numpy as np
import pytest
import yaml
from helpers import small_runs
from helpers.small_corpus import FIRST, small_corpus

from keras_bert_rebuild.data.corpora.held_out import SomeDocuments
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.recipes.pretraining import pretrain as pretrain_module
from keras_bert_rebuild.recipes.pretraining.pretrain import batches_of_phases, pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

PHASES = [{"steps": 2, "batch_size": 8, "seq_len": 8}, {"steps": 2, "batch_size": 4, "seq_len": 16}]
SETTINGS = {
    **{name: value for name, value in small_runs.FOUR_STEPS.items() if name not in ("steps", "batch_size", "seq_len")},
    "packing": True,
    "phases": PHASES,
}


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    return small_runs.whole_run(corpus, tmp_path_factory.mktemp("runs") / "run", SETTINGS)


@pytest.mark.slow
def test_the_phases_follow_one_another_with_about_as_many_tokens(whole):
    folder, rows, _ = whole
    with (folder / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(int(row["step"]), int(row["phase"])) for row in table] == [(2, 0), (4, 1)]
    assert all(float(row["held_out_mlm_loss"]) > 0 for row in table)
    places = 2 * 8 * 8
    assert [0.8 * places <= int(row["tokens"]) <= places for row in table] == [True, True]
    assert rows[-1]["step"] == 4


@pytest.mark.slow(torch=True)
def test_a_run_stopped_between_two_phases_ends_with_the_same_bits(whole, corpus, tmp_path):
    small_runs.check_resumption(whole, corpus, tmp_path / "run", SETTINGS)


SHORT = small_corpus(documents=60, passages=4, longest=3)  # documents of 8 to 12 tokens, each an example of its own at any length
IN_TURN = [{"steps": 12, "batch_size": 4, "seq_len": length} for length in (16, 32, 32, 16)]


def masked_documents(batches):
    """The rows of all batches of a phase: the tokens of each, and which of them are masked."""
    for index in range(len(batches)):
        (_, _, chosen), labels = batches.batch(0, index)
        for of_row, row in zip(chosen, labels[..., 0], strict=True):
            yield tuple(row[row >= FIRST]), tuple(of_row[row >= FIRST])


def test_a_phase_of_another_length_draws_order_and_masks_anew(tmp_path):
    settings = PretrainSettings(phases=IN_TURN, next_sentence="none")
    rows = [list(masked_documents(batches)) for batches in batches_of_phases(SHORT, settings)]
    assert [len(of_phase) for of_phase in rows] == [48] * 4
    for one, other in ((0, 1), (0, 3), (1, 3)):
        assert sum(a == b for a, b in zip(rows[one], rows[other], strict=True)) < 5
        shared = dict(rows[one]).keys() & dict(rows[other]).keys()
        assert len(shared) > 30
        assert sum(dict(rows[one])[text] == dict(rows[other])[text] for text in shared) < len(shared) / 2
    assert rows[1] == rows[2]  # one length: the run continues where the previous phase ended


@pytest.mark.parametrize(
    "settings",
    [
        {"next_sentence": "none"},
        {"next_sentence": "none", "packing": True},
        {"next_sentence": "nsp"},
        {"next_sentence": "sop", "packing": True},
        {"objective": "electra", "gradient_accumulation_steps": 2},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@pytest.mark.parametrize("mixed", [False, True])
def test_no_random_number_of_a_phase_returns_in_one_of_another_length(mixed, settings):
    corpus = MixedCorpus([SomeDocuments(SHORT, range(10)), SomeDocuments(SHORT, range(10, 60))], [1, 3]) if mixed else SHORT
    phases = batches_of_phases(corpus, PretrainSettings(phases=IN_TURN, **settings))
    found = [batches.examples.at(np.arange(3000))[0] for batches in phases]
    assert (found[1] == found[2]).all()
    assert not any(np.intersect1d(found[one], found[other]).size for one, other in ((0, 1), (0, 3), (1, 3)))


class MadeError(Exception):
    """Ends a run whose batches exist."""


@pytest.fixture
def seeds(monkeypatch):
    """A function from the arguments of `pretrain` to a random number of every phase."""

    def made(model, settings, folder, batches, *_):
        raise MadeError([int(data.examples.at([0])[0][0]) for data in batches])

    monkeypatch.setattr(pretrain_module, "TrainingRun", made)

    def seeds(*args, **kwargs):
        with pytest.raises(MadeError) as found:
            pretrain(*args, **kwargs)
        return found.value.args[0]

    return seeds


def test_a_run_of_an_earlier_version_keeps_its_examples_to_its_end(corpus, tmp_path, seeds):
    for name, settings in (("new", SETTINGS), ("one_length", {**SETTINGS, "phases": PHASES[:1]})):
        of_phases = seeds(corpus, tmp_path / name, settings)
        assert len(set(of_phases)) == len(of_phases)
    new, one_length = (yaml.safe_load((tmp_path / name / "settings.yaml").read_text()) for name in ("new", "one_length"))
    assert new.pop("examples_version") == 2
    assert "examples_version" not in one_length
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "settings.yaml").write_text(yaml.safe_dump(new))
    assert len(set(seeds(corpus, tmp_path / "old", SETTINGS))) == 1
    assert yaml.safe_load((tmp_path / "old" / "settings.yaml").read_text()) == new
    (tmp_path / "old" / "settings.yaml").write_text(yaml.safe_dump({**new, "examples_version": 3}))
    with pytest.raises(ValueError, match=r"settings\.yaml must have examples_version 1 or 2; got 3"):
        pretrain(corpus, tmp_path / "old", SETTINGS)


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_continued_with_its_decay_has_the_examples_of_that_run(corpus, tmp_path, seeds, version):
    known = PretrainSettings(**{**SETTINGS, "schedule": "trapezoidal"}).resolved()
    (tmp_path / "long" / "checkpoints" / "step-00000004").mkdir(parents=True)
    (tmp_path / "long" / "settings.yaml").write_text(yaml.safe_dump({**known, **({} if version == 1 else {"examples_version": 2})}))
    for _ in range(2):  # the second time from its own folder
        of_phases = seeds(corpus, tmp_path / "run", decay_from=str(tmp_path / "long"), decay_step=2, steps=4, tensorboard=False)
        assert len(set(of_phases)) == version
