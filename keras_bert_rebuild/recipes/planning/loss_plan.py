"""The predicted loss and cost of larger models and more tokens, from a scaling law fitted to the user's own runs."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.recipes.planning.law_uncertainty import COVERAGE, FittedLaw, fit_with_uncertainty
from keras_bert_rebuild.recipes.planning.measured_runs import MeasuredRun, measured_runs
from keras_bert_rebuild.recipes.planning.plan import SETTINGS, plan
from keras_bert_rebuild.recipes.planning.scaling_law import SAME, ScalingLaw
from keras_bert_rebuild.recipes.run_folder import read_yaml

# By default, losses are extrapolated by at most this many orders of magnitude in parameters or tokens.
ORDERS = 1.0
# Sizes of BERT to compare if no model is given.
COMPARED = ("tiny", "mini", "small", "medium", "base", "large")
# The parameters of a law, and their symbols in the paper.
NAMES = {"floor": "E", "size_factor": "A", "size_exponent": "α", "token_factor": "B", "token_exponent": "β"}


@dataclass(frozen=True, kw_only=True)
class LossRow:
    """The predicted loss of one model after a number of tokens, and the cost of that training."""

    model: str
    """The name of the model."""

    parameters: int
    """Its parameters, including embedding tables and heads."""

    tokens: int
    """Tokens of its training, repeated epochs included."""

    passes: float
    """The number of epochs."""

    beyond: float | None
    """By how many orders of magnitude its parameters or its tokens (the larger of the two) are outside the range of the runs; 0
    within it, None if the law has no term for a quantity that differs."""

    loss: float | None
    """Predicted held-out loss, in nats; None if it is too far outside the range of the runs."""

    low: float | None
    """Lower end of the 90 % interval."""

    high: float | None
    """Upper end of the 90 % interval."""

    hours: float
    """Hours on the devices."""

    fits: bool
    """Whether a step fits into the memory of the devices."""


@dataclass(frozen=True, kw_only=True)
class LossPlan:
    """A scaling law with its uncertainty, and its predictions."""

    runs: tuple[MeasuredRun, ...]
    """The runs that the law was fitted to."""

    fitted: FittedLaw
    """The law."""

    rows: tuple[LossRow, ...]
    """One row for every model."""

    best: str | None
    """With `hours`, the model with the lowest loss among those that fit into memory; else None."""

    optimal: dict[str, Any] | None
    """With `hours` and a law with both terms, the compute-optimal size: operations of the devices in that time, parameters with
    their interval, and tokens, at 6 operations per parameter and token, independent of the given models. None otherwise, or if
    the interval spans more than two orders of magnitude, which a note then says."""

    devices: str
    """The devices that the costs are for."""

    notes: tuple[str, ...]
    """Caveats, one sentence each."""

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
    """Fit a scaling law to finished runs, and predict the loss and the cost of models.

    The learning rate of every run should have decayed to its end: the loss in the middle of a longer run, at a high learning rate,
    is not the loss of a run of that length (Hoffmann et al., 2022, section 3.1).

    Args:
        runs: folders of runs on one corpus with one objective.
        models: as for `plan`; empty for the sizes tiny to large.
        tokens: tokens of a training; None for twenty per parameter, about the optimum of Hoffmann et al. for language models.
        hours: instead of tokens, hours of a training on the devices; each model then trains on as many tokens as it has time for.
        orders: maximum orders of magnitude outside the range of the runs for which a loss is given.
        tpu, gpus, gpu, cpu, utilisation: as for `plan`; without devices, the CPU of this machine.
        **settings: as for `plan`; by default those of the largest run.

    Raises:
        ValueError: as from `measured_runs`, `fit_law` and `plan`; or tokens and hours are both given, or one is not above 0.
    """
    for name, value in (("tokens", tokens), ("hours", hours), ("orders", orders)):
        if value is not None and not (is_number(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0; got {value!r}.")
    if tokens is not None and hours is not None:
        raise ValueError(f"expected tokens or hours of a training, not both; got {tokens} tokens and {hours} hours.")
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
    unknown = [f"The runs do not determine the compute-optimal size: its interval is {low:.2g} to {high:.2g} parameters."] * vague
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
    """Orders of magnitude outside the range of the runs; None if the law has no term for a quantity that differs."""
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
        yield "All runs have one size: the law has no term for parameters (E includes it) and no prediction for other sizes."
    if not law.terms[1]:
        yield "All runs have equal tokens: the law has no term for tokens (E includes it) and no prediction for other numbers."
    if fitted.interval_of("floor")[0] < 0.1 * min(run.loss for run in measured):
        yield "The runs hardly determine E, the irreducible loss: its interval reaches almost 0, so far predictions may be too low."
    for has, name, count in zip(law.terms, ("size_exponent", "token_exponent"), _sides(measured), strict=True):
        if has and max(count) / min(count) < 10:
            what = "parameters" if name == "size_exponent" else "tokens"
            span = f"{max(count) / min(count):.1f} in {what}, less than an order of magnitude"
            yield f"The runs span a factor of {span}: {NAMES[name]} is poorly determined."
    far = [row.model for row in rows if row.beyond is not None and row.beyond > orders]
    if far:
        yield f"No loss is given for {', '.join(far)}: more than {orders:g} orders of magnitude outside the runs (--orders)."
    beyond = max((row.beyond for row in rows if row.loss is not None and row.beyond is not None), default=0.0)
    if beyond > 0:
        yield f"Rows extrapolate by up to {beyond:.1f} orders of magnitude, where intervals assume that the law still holds."
    if any(row.passes > 4 for row in rows):
        yield "Beyond four epochs, repeated text is worth less (Muennighoff et al., 2023), which the law does not model."
