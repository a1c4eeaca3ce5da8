"""The time of a step, derived from measured steps."""

import dataclasses

import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning import measured_steps
from keras_bert_rebuild.recipes.planning.measured_steps import MEASURED, PUBLISHED
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS

WITHOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture
def on_tensorflow(monkeypatch):
    """Plans of steps that leave out padding, as the measured ones did."""
    monkeypatch.setattr("keras_bert_rebuild.kernels.traits.compiles_each_shape", lambda: False)


@pytest.fixture
def planned(monkeypatch, on_tensorflow):
    """A function that plans the step of a row."""

    def run(row):
        monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: row.rate)
        config = row.model if row.dropout else dataclasses.replace(BertConfig(), **WITHOUT)
        device = {"cpu": True} if row.device == "cpu" else {"gpu": row.device}
        sizes = {"batch_size": row.batch_size, "seq_len": row.seq_len, "dtype": row.dtype}
        return plan(config, **device, **sizes, packing=row.packing, real_tokens=row.real_tokens)

    return run


def is_same_step(one, other):
    names = ("device", "model", "batch_size", "seq_len", "dtype", "dropout")
    return all(getattr(one, name) == getattr(other, name) for name in names)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row.device} {row.words}")
def test_a_measured_step_is_predicted_from_the_others_within_15_percent(row, planned, monkeypatch):
    others = tuple(other for other in MEASURED if not is_same_step(other, row))
    assert len(others) < len(MEASURED)
    monkeypatch.setattr(measured_steps, "MEASURED", others)
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.15)
    real = row.batch_size * row.seq_len * row.real_tokens / row.seconds
    assert made.tokens_per_second == pytest.approx(real, rel=0.15)


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row.device} {row.words}")
def test_a_measured_step_is_its_own_prediction(row, planned):
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.01)
    assert f"{row.words}, {row.source}" in made.derived_from


# "Without padding" in benchmarks/RESULTS.md: other fillings of 8 x 128, which plans are not derived from.
FILLED = {
    ("float32", 1.0): 3.162,
    ("mixed_bfloat16", 1.0): 1.796,
    ("float32", 0.797): 2.740,
    ("mixed_bfloat16", 0.797): 1.561,
}


@pytest.mark.parametrize(("dtype", "real_tokens"), FILLED)
def test_steps_with_other_fractions_of_padding_are_predicted_within_15_percent(dtype, real_tokens, planned):
    (row,) = (row for row in MEASURED if (row.device, row.dtype, row.seq_len) == ("cpu", dtype, 128))
    made = planned(dataclasses.replace(row, real_tokens=real_tokens))
    assert made.step_seconds == pytest.approx(FILLED[dtype, real_tokens], rel=0.15)


@pytest.mark.parametrize(
    ("settings", "shorter"),
    [
        ({"model": "base"}, True),
        ({"model": "base", "remat": True}, False),
        ({"model": "mini"}, False),
        ({"model": "electra-base", "objective": "electra"}, False),
        ({"model": "xlnet-base"}, False),
    ],
    ids=["wide", "rematerialised", "narrow", "ELECTRA", "relative positions"],
)
def test_padding_takes_no_time_on_a_processor_where_steps_leave_it_out(settings, shorter, monkeypatch, on_tensorflow):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: 2e11)
    half, whole = (plan(**settings, cpu=True, real_tokens=fraction).step_seconds for fraction in (0.5, 1))
    assert (half < 0.7 * whole) == shorter
    assert shorter or half == whole
    assert plan(**settings, cpu=True, batch_size=1, seq_len=8, real_tokens=0.01).step_seconds > 0


def test_padding_takes_time_on_a_backend_that_compiles_each_shape(monkeypatch):
    monkeypatch.setattr("keras_bert_rebuild.recipes.step_costs.matrix_ceiling", lambda dtype: 2e11)
    monkeypatch.setattr("keras_bert_rebuild.kernels.traits.compiles_each_shape", lambda: True)
    half, whole = (plan(cpu=True, real_tokens=fraction) for fraction in (0.5, 1))
    assert half.step_seconds == whole.step_seconds
    assert half.tokens_per_second == whole.tokens_per_second / 2


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.device} {row.words}")
def test_a_published_step_is_predicted_within_a_quarter_and_stands_beside_the_plan(row, planned):
    made = planned(row)
    assert made.step_seconds == pytest.approx(row.seconds, rel=0.25)
    (note,) = made.notes
    assert f"{row.batch_size * row.seq_len / row.seconds:,.0f} tokens per second" in note
    assert note.endswith(f"the same computation as here: {made.tokens_per_second:,.0f}.")


def test_a_device_without_measured_steps_takes_those_of_the_h100_by_its_rates():
    made = plan("base", gpu="l4", batch_size=64, dtype="mixed_bfloat16")
    assert "H100" in made.derived_from
    assert "by the published rates of the NVIDIA L4" in made.derived_from
    slower = GPU_CARDS["h100"].bfloat16 / GPU_CARDS["l4"].bfloat16, GPU_CARDS["h100"].bandwidth / GPU_CARDS["l4"].bandwidth
    times = made.compute_seconds / plan("base", gpu="h100", batch_size=64, dtype="mixed_bfloat16").compute_seconds
    assert min(slower) < times < max(slower)


@pytest.mark.parametrize("device", [{"tpu": "v5e:2x2"}, {"gpu": "v100"}])
def test_where_nothing_is_known_utilisation_is_assumed(device):
    made = plan("base", **device)
    assert made.utilisation == pytest.approx(0.4)
    assert made.derived_from.startswith("40% is assumed")


def test_a_given_utilisation_overrides_what_was_measured():
    made = plan("base", gpu="h100", utilisation=0.5)
    assert made.compute_seconds == pytest.approx(made.flops / (494.5e12 * 0.5))
    assert made.derived_from == "the MFU that was given"


def test_wider_models_are_more_efficient_and_longer_texts_and_dropout_take_longer():
    def planned(model="base", seq_len=128, **options):
        config = {} if model == "base" else {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
        config = BertConfig(**config, **options)
        return plan(config, gpu="h100", batch_size=32768 // seq_len, seq_len=seq_len, dtype="mixed_bfloat16")

    assert planned("large").utilisation > planned().utilisation
    without, hidden_only, everywhere = planned(**WITHOUT), planned(attention_probs_dropout_prob=0.0), planned()
    assert without.utilisation > hidden_only.utilisation > everywhere.utilisation
    seconds = [planned(seq_len=length).compute_seconds for length in (128, 256, 512)]
    assert seconds == sorted(set(seconds))
