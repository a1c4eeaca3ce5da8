"""What larger models and more tokens would reach, and cost: the scaling law of a user's runs, and plans."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.planning.law_uncertainty import COVERAGE, FittedLaw, fit_with_uncertainty
from keras_bert_rebuild.recipes.planning.measured_runs import MeasuredRun, measured_runs
from keras_bert_rebuild.recipes.planning.plan import SETTINGS, plan
from keras_bert_rebuild.recipes.planning.scaling_law import SAME, ScalingLaw
from keras_bert_rebuild.recipes.run_folder import read_yaml

# Orders of magnitude, in parameters or tokens, beyond the runs for which a loss is given if nothing is said.
ORDERS = 1.0
# Sizes to compare if no model is given: BERT's.
COMPARED = ("tiny", "mini", "small", "medium", "base", "large")
# From the numbers of a law to their names in the paper.
NAMES = {"floor": "E", "size_factor": "A", "size_exponent": "α", "token_factor": "B", "token_exponent": "β"}


@dataclass(frozen=True, kw_only=True)
class LossRow:
    """What one model would reach with a number of tokens, and what that takes."""

    model: str
    """Its name."""

    parameters: int
    """Its parameters, with tables and heads."""

    tokens: int
    """Tokens of its training, also those of further passes over the corpus."""

    passes: float
    """How often it sees the corpus."""

    beyond: float | None
    """Orders of magnitude that its parameters or tokens, the larger of the two, are above those of all runs or below; 0 within,
    None where the law says nothing of other sizes or of other tokens."""

    loss: float | None
    """Held-out loss that the law says, in nats; None if it is too far beyond the runs."""

    low: float | None
    """Lower end of the interval of nine tenths."""

    high: float | None
    """Upper end."""

    hours: float
    """Hours on the devices."""

    fits: bool
    """Whether a step fits into their memory."""


@dataclass(frozen=True, kw_only=True)
class LossPlan:
    """A scaling law with its uncertainty, and what it says of models."""

    runs: tuple[MeasuredRun, ...]
    """The runs it was fitted to."""

    fitted: FittedLaw
    """The law."""

    rows: tuple[LossRow, ...]
    """One for every model."""

    best: str | None
    """With hours, the model of the least loss among those that fit; None without."""

    optimal: dict[str, Any] | None
    """With hours and a law of both terms, the compute-optimal size: operations of the devices in that time, parameters with their
    interval, and tokens; by 6 operations for each parameter and token, whatever models there are. None otherwise, and where its
    interval spans more than two orders of magnitude: a note then says so."""

    devices: str
    """The devices of the rows."""

    notes: tuple[str, ...]
    """What to keep in mind, one sentence each."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        law, runs, numbers = self.fitted.law, [], {}
        for run, without in zip(self.runs, self.fitted.without, strict=True):
            runs.append({**asdict(run), "law": float(law.loss(run.parameters, run.tokens)), "without": float(without)})
        for name in NAMES:
            if (value := getattr(law, name)) is not None:
                numbers[name] = {"value": value, "interval": list(self.fitted.interval_of(name))}
        others = {"best": self.best, "optimal": self.optimal, "devices": self.devices, "notes": list(self.notes)}
        return {"runs": runs, "law": numbers, "rows": [asdict(row) for row in self.rows], **others}


def loss_plan(
    runs: Sequence[str | os.PathLike[str]],
    models: Sequence[str | os.PathLike[str] | BertConfig | Mapping[str, Any]] = (),
    *,
    tokens: float | None = None,
    hours: float | None = None,
    orders: float = ORDERS,
    tpu: str | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    cpu: bool = False,
    utilisation: float | None = None,
    **settings: Any,
) -> LossPlan:
    """Fit a scaling law to finished runs, and say what models would reach and take.

    Each of the runs should have had a schedule of its own that ended with it: the loss in the middle of a longer run, at a high
    rate, is not that of a run of this length (Hoffmann et al., 2022, section 3.1).

    Args:
        runs: their folders; one corpus, one objective.
        models: as for `plan`; none for tiny to large.
        tokens: tokens of a training; None for twenty for each parameter, about the optimum of Hoffmann et al. for language models.
        hours: hours of a training on the devices instead: the tokens are then those that each model has time for.
        orders: orders of magnitude beyond the runs for which a loss is given.
        tpu, gpus, gpu, cpu, utilisation: as for `plan`; without devices, this processor.
        **settings: as for `plan`, instead of those of the largest run.

    Raises:
        ValueError: as from `measured_runs`, `fit_law` and `plan`, or tokens and hours are both given or not above 0.
    """
    for name, value in (("tokens", tokens), ("hours", hours), ("orders", orders)):
        if value is not None and not (is_number(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0; got {value!r}.")
    if tokens is not None and hours is not None:
        raise ValueError(f"a training has tokens or hours; got {tokens} tokens and {hours} hours.")
    measured, known, vocabulary = measured_runs(runs)
    sizes, counts, losses = ([getattr(run, name) for run in measured] for name in ("parameters", "tokens", "loss"))
    fitted = fit_with_uncertainty(sizes, counts, losses)
    here = cpu or (tpu is None and gpus is None and gpu is None)
    phase = known.all_phases[-1]
    given: dict[str, Any] = {name: getattr(known, name) for name in SETTINGS}
    given |= {"batch_size": phase.batch_size, "seq_len": phase.seq_len, "max_predictions": phase.max_predictions, **settings}
    given |= {"vocab_size": vocabulary, "packing": known.packing, "utilisation": utilisation}
    given |= {"tpu": tpu, "gpus": gpus, "gpu": gpu, "cpu": here}
    corpus = _corpus_tokens(runs[0])
    plans = {str(model): plan(model, **given) for model in models or COMPARED}
    rows = [
        _row(name, planned, _tokens(planned, tokens, hours), corpus, measured, fitted, orders) for name, planned in plans.items()
    ]
    usable = [row for row in rows if row.fits and row.loss is not None]
    best = min(usable, key=lambda row: row.loss or math.inf).model if hours is not None and usable else None
    notes = tuple(_notes(measured, fitted, rows, orders))
    middle = list(plans.values())[len(plans) // 2]
    optimal = _optimal(fitted, middle, hours) if hours is not None and all(fitted.law.terms) else None
    low, high = (1.0, 1.0) if optimal is None else optimal["interval"]
    vague = high > 100 * low
    unknown = [f"The runs do not tell the compute-optimal size: fits put it from {low:.2g} to {high:.2g} parameters."] * vague
    return LossPlan(
        runs=tuple(measured),
        fitted=fitted,
        rows=tuple(rows),
        best=best,
        optimal=None if optimal is None or vague else optimal,
        devices=middle.devices,
        notes=(*notes, *unknown),
    )


def _optimal(fitted, planned, hours):
    operations = planned.flops / planned.step_seconds * 3600 * hours
    parameters, tokens = fitted.law.optimum(operations)
    sizes = [law.optimum(operations)[0] for law in fitted.others]
    interval = np.quantile(sizes, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]).tolist()
    return {"operations": operations, "parameters": parameters, "interval": interval, "tokens": tokens}


def _tokens(planned, tokens, hours):
    if hours is not None:
        return max(round(planned.tokens_per_second * hours * 3600), 1)
    return round(20 * planned.num_parameters if tokens is None else tokens)


def _corpus_tokens(folder):
    return int(read_yaml(Path(folder) / "settings.yaml")["corpus"]["tokens"])


def _row(name, planned, tokens, corpus, measured, fitted, orders):
    beyond = _beyond(planned.num_parameters, tokens, measured, fitted.law)
    loss = low = high = None
    if beyond is not None and beyond <= orders:
        loss = float(fitted.law.loss(planned.num_parameters, tokens))
        low, high = fitted.interval(planned.num_parameters, tokens)
    return LossRow(
        model=name,
        parameters=planned.num_parameters,
        tokens=tokens,
        passes=tokens / corpus,
        beyond=beyond,
        loss=loss,
        low=low,
        high=high,
        hours=tokens / planned.tokens_per_second / 3600,
        fits=planned.fits,
    )


def _beyond(parameters, tokens, measured, law):
    """Orders of magnitude outside of the runs; None if the law has no term that would tell."""
    found = []
    for has, value, values in zip(law.terms, (parameters, tokens), _sides(measured), strict=True):
        distance = max(math.log10(value / max(values)), math.log10(min(values) / value), 0.0)
        if not has and distance > math.log10(SAME):
            return None
        found.append(distance)
    return max(found)


def _sides(measured):
    return [run.parameters for run in measured], [run.tokens for run in measured]


def _notes(measured, fitted, rows, orders):
    law: ScalingLaw = fitted.law
    if not law.terms[0]:
        yield "All runs are of one size: the law has no term of parameters, E contains it, and nothing is said of other sizes."
    if not law.terms[1]:
        yield "All runs have equal tokens: the law has no term of tokens, E contains it, and nothing is said of other numbers."
    if fitted.interval_of("floor")[0] < 0.1 * min(run.loss for run in measured):
        yield "The runs hardly tell E, the least loss: its interval reaches to almost 0, and so the law falls on too far from them."
    for has, name, count in zip(law.terms, ("size_exponent", "token_exponent"), _sides(measured), strict=True):
        if has and max(count) / min(count) < 10:
            what = "parameters" if name == "size_exponent" else "tokens"
            span = f"{max(count) / min(count):.1f} in {what}, less than an order of magnitude"
            yield f"The runs span a factor of {span}: {NAMES[name]} is loose."
    far = [row.model for row in rows if row.beyond is not None and row.beyond > orders]
    if far:
        yield f"No loss is given for {', '.join(far)}: more than {orders:g} orders of magnitude beyond the runs (--orders)."
    beyond = max((row.beyond for row in rows if row.loss is not None and row.beyond is not None), default=0.0)
    if beyond > 0:
        yield f"Rows reach up to {beyond:.1f} orders of magnitude beyond the runs, where intervals assume that the law holds."
    if any(row.passes > 4 for row in rows):
        yield "Beyond four passes over a corpus text teaches less (Muennighoff et al., 2023), which the law does not know."
