"""Continue a trapezoidal run from one of its checkpoints with the decay of the learning rate: many models from one long run."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import BEFORE
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import INSTEAD_OF_PHASES, OF_A_START, PretrainSettings
from keras_bert_rebuild.recipes.run_folder import FREE
from keras_bert_rebuild.recipes.settings import as_phase, plain
from keras_bert_rebuild.training.state.checkpoint import read_checkpoint
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

# Settings that may differ from those of the run that is continued.
OWN = ("decay_from", "decay_step", "steps", "decay_fraction", "decay_shape", *FREE, *OF_A_START)


def with_decay(settings: PretrainSettings, output: Any) -> PretrainSettings:
    """The settings of a run that continues another with the decay of its learning rate; unchanged without `decay_from`.

    They equal those of an uninterrupted run whose decay was planned for that step: steps, warm-up and phases of the original run
    up to the new end. Both therefore end with bit-identical weights.

    Args:
        settings: `PretrainSettings` with `decay_from`; of the other fields, only those that may differ may be set.
        output: the folder of the new run, which may already exist.

    Raises:
        ValueError: there is no such run or checkpoint, its schedule has no constant part, or settings differ.
    """
    if settings.decay_from is None:
        return settings
    run = Path(settings.decay_from)
    values = _values_of(run)
    known = PretrainSettings.recorded(values)
    differing = _differing(settings, known, values)
    if differing:
        raise ValueError(f"decay_from continues {run} with its own settings: {'; '.join(differing)}. Leave them out.")
    if settings.steps is not None and settings.decay_fraction is not None:
        raise ValueError(
            f"the decay must end by either steps or decay_fraction; got {settings.steps} and {settings.decay_fraction}."
        )
    fraction = known.fall[0] if settings.decay_fraction is None else settings.decay_fraction
    begins = known.total_steps - round(known.fall[0] * known.total_steps)
    warmup = known.warmup_of(known.total_steps)
    step = _step(settings, run, known.gradient_accumulation_steps, begins, Path(output))
    if not warmup <= step <= begins:
        raise ValueError(f"decay_step must be from {warmup} to {begins}, where the learning rate of {run} is constant; got {step}.")
    total = settings.steps or (round(step / (1 - fraction)) if fraction < 1 else 0)
    if total <= step:
        raise ValueError(f"steps must be above decay_step, at which the decay begins; got steps={total} and decay_step={step}.")
    every = max((total - step) // 10, 1)
    own = {name: getattr(settings, name) for name in (*FREE, *OF_A_START)}
    own["evaluate_steps"] = settings.evaluate_steps or every
    return replace(
        known,
        **own,
        phases=_until(known.all_phases, total),
        warmup_steps=warmup,
        warmup_fraction=None,
        decay_fraction=(total - step) / total,
        decay_shape=settings.decay_shape or known.fall[1],
        decay_from=plain(run),
        decay_step=step,
    )


def decay_checkpoint(settings: PretrainSettings) -> Any:
    """The checkpoint that a run with settings from `with_decay` starts from.

    Raises:
        ValueError: it is missing or damaged.
    """
    run, step = settings.decay_from, settings.decay_step
    if run is None or step is None:
        raise ValueError(f"expected settings from with_decay, with decay_from and decay_step; got {run} and {step}.")
    return read_checkpoint(Path(run) / "checkpoints" / f"step-{step * settings.gradient_accumulation_steps:08d}")


def _values_of(run):
    """The settings in the folder of a trapezoidal run."""
    if not (run / "settings.yaml").is_file():
        raise ValueError(f"decay_from must be the folder of a run, with its settings.yaml; {run} has none.")
    values = read_yaml(run / "settings.yaml")
    for name, expected in (("schedule", "trapezoidal"), ("minutes", None), ("decay_from", None)):
        found = values.get(name, BEFORE[name])
        if found != expected:
            what = f"without {name}" if expected is None else f"with {name}={expected!r}"
            raise ValueError(
                f"decay_from must be a run {what}, with a constant learning rate before its decay; {run} has {found!r}."
            )
    return values


def _differing(settings, known, values):
    """The given settings that differ from those of the run, which are `known`, and as in its file `values`."""
    default = asdict(PretrainSettings())
    given = asdict(replace(settings, phases=[phase.with_predictions(known.mask_rate) for phase in settings.phases]))
    theirs = {**asdict(known), **values, **_instead_of_phases(known)}
    names = [name for name in given if name not in OWN and given[name] != default[name]]
    if settings.phases:  # which override these
        names = [name for name in names if name not in INSTEAD_OF_PHASES]
    found = [(name, plain(given[name]), plain(theirs[name])) for name in names]
    return [f"{name} is {value!r} and was {other!r}" for name, value, other in found if value != other]


def _instead_of_phases(known):
    """The settings of a run that its file has as phases: those that make these phases, or lists of the values in each phase."""
    *growing, last = known.all_phases
    sizes = [phase.batch_size for phase in growing]
    made = {
        **{name: getattr(last, name) for name in ("batch_size", "seq_len", "max_predictions")},
        "batch_warmup": sizes,
        "batch_warmup_steps": sum(phase.steps for phase in growing) or None,
    }
    if replace(known, phases=(), steps=known.total_steps, **made).all_phases == known.all_phases:
        return made
    of_each = {name: [getattr(phase, name) for phase in known.all_phases] for name in ("batch_size", "seq_len", "max_predictions")}
    return {name: each[0] if len(set(each)) == 1 else each for name, each in of_each.items()}


def _step(settings, run, accumulation, begins, output):
    """The step of the checkpoint to start from."""
    begun = output / "settings.yaml"
    if settings.decay_step is None and begun.is_file():  # the other run may have continued since
        known = read_yaml(begun)
        if known.get("decay_from") == plain(run) and isinstance(known.get("decay_step"), int):
            return known["decay_step"]
    if settings.decay_step is not None and begun.is_file():
        return settings.decay_step  # its checkpoint may have been deleted since
    found = [step // accumulation for step in CheckpointFolder(run / "checkpoints").steps() if step % accumulation == 0]
    usable = [step for step in found if step <= begins]
    wanted = settings.decay_step if settings.decay_step is not None else max(usable, default=None)
    if wanted not in found:
        what = f"of step {wanted}" if wanted is not None else f"up to step {begins}, where its decay begins,"
        kept = ", ".join(f"{step:,}" for step in found) or "none"
        raise ValueError(f"decay_from must have a checkpoint {what} in {run}; it has {kept}: see keep_checkpoints and save_steps.")
    return wanted


def _until(phases, total):
    """Phases that end at a step: cut, or the last one extended."""
    kept, left = [], total
    for i, phase in enumerate(phases):
        steps = left if i == len(phases) - 1 else min(phase.steps, left)
        if steps:
            kept.append(as_phase(replace(phase, steps=steps), i))
        left -= steps
    return tuple(kept)
