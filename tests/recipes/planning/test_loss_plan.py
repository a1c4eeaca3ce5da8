"""What `plan --loss` says of runs whose losses follow a known law."""

import json

import numpy as np
import pytest
import yaml

from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.recipes.planning import loss_plan as module
from keras_bert_rebuild.recipes.planning.loss_plan import loss_plan
from keras_bert_rebuild.recipes.planning.measured_runs import measured_runs
from keras_bert_rebuild.recipes.planning.scaling_law import ScalingLaw
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

KNOWN = ScalingLaw(1.5, 30.0, 0.3, 300.0, 0.3)
WIDTHS, TOKENS = (32, 64, 128, 256), (2_000_000, 8_000_000, 32_000_000)
VOCABULARY = 500


def write_run(folder, width, tokens, **changes):
    """A finished run as `pretrain` leaves it, with the loss of the known law."""
    model = {"num_hidden_layers": 2, "hidden_size": width, "num_attention_heads": 2, "intermediate_size": 4 * width}
    settings = PretrainSettings.from_dict({"model": model, "steps": 10, "batch_size": 8, "seq_len": 32, **changes})
    corpus = {"sha256": "0", "tokens": 1_000_000, "vocabulary": VOCABULARY}
    folder.mkdir()
    (folder / "model").mkdir()
    (folder / "settings.yaml").write_text(yaml.safe_dump({**settings.resolved(), "corpus": corpus}))
    size = settings.model_config(VOCABULARY, 0).num_params(("mlm", "nsp"))
    loss = float(KNOWN.loss(size, tokens))
    text = f"step,tokens,held_out_mlm_loss\n5,{tokens // 2},\n10,{tokens - tokens // 2},{loss:.7g}\n"
    (folder / "metrics.csv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [write_run(folder / f"{width}-{tokens}", width, tokens) for width in WIDTHS for tokens in TOKENS]


FITTED = {}


@pytest.fixture(autouse=True)
def few_fits_once(monkeypatch):
    """Ten fits instead of hundreds, and one fit for the same runs in several tests."""
    whole = module.fit_with_uncertainty

    def fitted(*points):
        key = repr(points)
        if key not in FITTED:
            FITTED[key] = whole(*points, fits=10)
        return FITTED[key]

    monkeypatch.setattr(module, "fit_with_uncertainty", fitted)


def test_parameters_tokens_and_losses_are_read(runs):
    measured, settings, vocabulary = measured_runs(runs)
    assert [run.tokens for run in measured[:3]] == list(TOKENS)
    assert (settings.model["hidden_size"], vocabulary) == (256, VOCABULARY)
    assert measured[0].loss == pytest.approx(float(KNOWN.loss(measured[0].parameters, measured[0].tokens)), rel=1e-6)


def test_a_model_near_the_runs_has_the_loss_of_the_law_and_others_have_none(runs):
    planned = loss_plan(runs, ["mini", "large"], tokens=1e8, gpu="h100")
    near, far = planned.rows
    assert near.loss == pytest.approx(float(KNOWN.loss(near.parameters, 1e8)), rel=1e-3)
    assert near.low <= near.loss * 1.001
    assert near.high >= near.loss * 0.999
    assert (near.tokens, near.passes, far.loss, far.low) == (10**8, 100.0, None, None)
    assert 0 < near.beyond < 1 < far.beyond
    assert 0 < near.hours < far.hours
    text = " ".join(planned.notes)
    assert "No loss is given for large: more than 1 orders of magnitude outside the runs" in text
    assert "Beyond four epochs" in text
    assert loss_plan(runs, ["large"], tokens=1e8, gpu="h100", orders=3).rows[0].loss is not None


def test_hours_choose_the_tokens_of_each_model_and_the_best_one(runs):
    planned = loss_plan(runs, ["tiny", "mini"], hours=0.01, gpu="h100", orders=9)
    assert all(row.hours == pytest.approx(0.01, rel=1e-3) for row in planned.rows)
    assert planned.rows[0].tokens > planned.rows[1].tokens
    assert planned.best == min(planned.rows, key=lambda row: row.loss).model
    optimal = planned.optimal
    assert optimal["interval"][0] <= optimal["parameters"] * 1.001
    assert 6 * optimal["parameters"] * optimal["tokens"] == pytest.approx(optimal["operations"], rel=1e-6)


def test_runs_of_one_size_say_nothing_of_another(runs, tmp_path):
    tokens = [*TOKENS, 128_000_000]
    same = [write_run(tmp_path / str(count), 64, count) for count in tokens]
    size = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 256}
    planned = loss_plan(same, [size, "mini"], tokens=2e8, gpu="h100")
    assert planned.rows[0].loss == pytest.approx(float(KNOWN.loss(planned.rows[0].parameters, 2e8)), rel=1e-3)
    assert (planned.rows[1].loss, planned.rows[1].beyond) == (None, None)
    assert planned.notes[0].startswith("All runs have one size")


def test_runs_that_cannot_be_compared_or_are_not_over_are_errors(runs, tmp_path):
    other = write_run(tmp_path / "other", 32, 10**6, mask_rate=0.3)
    with pytest.raises(ValueError, match=r"expected runs on one corpus with one objective; .*mask_rate is 0\.3 and 0\.15"):
        measured_runs([*runs, other])
    (other / "model").rmdir()
    with pytest.raises(ValueError, match=r"needs finished runs; .*other has no model yet"):
        measured_runs([other])
    with pytest.raises(ValueError, match=r"expected the folder of a pretraining run"):
        measured_runs([tmp_path])
    with pytest.raises(ValueError, match=r"got a folder twice"):
        measured_runs([runs[0], runs[0]])


def test_tokens_and_hours_exclude_each_other(runs):
    with pytest.raises(ValueError, match=r"expected tokens or hours of a training, not both; got 5 tokens and 2 hours"):
        loss_plan(runs, tokens=5, hours=2)


def test_the_command_prints_tables_and_json(runs, capsys):
    command = ["plan", "mini", "--gpu", "h100", "--tokens", "1e8", "--loss", *map(str, runs)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "L = E + A / N^α + B / D^β" in shown
    assert "without it" in shown
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["law"]["token_exponent"]["value"] == pytest.approx(0.3, rel=1e-2)
    assert np.isfinite([row["loss"] for row in values["rows"]]).all()
    assert len(values["runs"]) == len(runs)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["plan", "--gpu", "h100"], "a plan needs --model"),
        (["plan", "base", "--gpu", "h100", "--hours", "2"], "--hours is only for --loss"),
        (["plan", "--gpu", "h100", "--vocab-size", "7", "--loss", "a"], "--vocab-size is not for --loss"),
    ],
)
def test_options_that_do_not_fit_together_are_one_sentence(given, said, capsys):
    assert main(given) == 2
    assert said in capsys.readouterr().err
