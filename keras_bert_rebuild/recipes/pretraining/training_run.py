"""Train a run from its last checkpoint to its end, span by span."""

import contextlib
import copy
import itertools
import time

import keras

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.metrics_table import MetricsTable
from keras_bert_rebuild.recipes.pretraining.background import Background
from keras_bert_rebuild.recipes.pretraining.decay_from import decay_checkpoint
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import make_optimizer, rate_schedule
from keras_bert_rebuild.recipes.pretraining.step_spans import FirstBatch, SpanOfBatches, TimeBudget, step_spans
from keras_bert_rebuild.recipes.probing.probes import record_baselines
from keras_bert_rebuild.recipes.run_log import RunLog
from keras_bert_rebuild.recipes.step_costs import Work, matrix_ceiling, trained_flops
from keras_bert_rebuild.training.compile_model import compile_model
from keras_bert_rebuild.training.distributed.distribution import Distribution, on_one_device
from keras_bert_rebuild.training.distributed.hosts import check_agreement, gathered
from keras_bert_rebuild.training.optimizers.by_path import averaged_weights
from keras_bert_rebuild.training.state.callbacks import StopOnNonFiniteLoss, StopOnSignal, StopTogether
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import CheckpointWriter
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds
from keras_bert_rebuild.training.state.train_state import FiniteState, write_state


def columns(objective, probes=()):
    """The columns of the metrics table of a run: the learning rate at the step, and how many different pairs an evaluation has; all
    else is averaged since the previous row.

    Args:
        objective: an object of `objectives`.
        probes: the columns of probes.
    """
    measured = [f"held_out_{name}" for name in objective.quality]
    measured += [*(["held_out_pairs"] if "pair_accuracy" in objective.quality else []), *probes]
    return ("step", "phase", "learning_rate", *objective.quality, *measured, "tokens", "tokens_per_second", "flop_utilisation")


class StoppedError(Exception):
    """A signal stopped a run cleanly: its last step is in a checkpoint.

    Args:
        step: the last step.
        total: the steps of the whole run.
        number: the signal.
    """

    def __init__(self, step, total, number):
        super().__init__(f"Stopped after step {step:,} of {total:,}, which is in a checkpoint.")
        self.signal = int(number)
        """The number of the signal."""


class NonFiniteLossError(ValueError):
    """A loss was NaN or infinite, or a weight was although the loss was finite."""


class TrainingRun:
    """The training of a model in a folder.

    Steps are counted in batches, not in optimizer steps: with gradient accumulation an optimizer step has several batches.

    Args:
        model: from `build_model` or `from_pretrained`, not yet compiled.
        settings: `PretrainSettings`.
        folder: the path of the run's folder.
        batches: a `PretrainingBatches` for every phase.
        evaluations: for every phase, batches to evaluate on, or None; or the `Background` of this list.
        report: called with every row of the metrics table; None for none. The first row has only the step that the run starts at.
        where: the `Distribution`, with the devices and the rows of each batch that they get; None for one device and all rows. On
            several hosts, all compute the same steps, and one writes.
        started: `time.monotonic()` when the run was called, for a run in minutes; None for now.
        probes: `Probes` of the model; None for none.
        callbacks: further callbacks for `fit`.
    """

    budget = None  # the `TimeBudget` of a run in minutes

    def __init__(
        self, model, settings, folder, batches, evaluations, report=None, where=None, started=None, probes=None, callbacks=()
    ):
        self.model, self.settings, self.folder, self.batches = model, settings, folder, batches
        self.evaluations = evaluations if isinstance(evaluations, Background) else Background(lambda: evaluations)
        self.report = report or (lambda row: None)
        self.where, self.probes, self.callbacks = where or Distribution("none"), probes, list(callbacks)
        self.checkpoints = CheckpointFolder(folder / "checkpoints", keep=settings.keep_checkpoints)
        beside = settings.save_in_background
        self.writer = CheckpointWriter(self.checkpoints, traits.runs_on_accelerator() if beside == "auto" else beside)
        self.schedule = rate_schedule(settings)
        self.optimizer = make_optimizer(model, settings, self.schedule)
        self.accumulation = settings.gradient_accumulation_steps
        if settings.minutes is None:
            self.ends = [sum(len(data) for data in batches[: i + 1]) for i in range(len(batches))]
        else:
            shares = [phase.steps / settings.total_steps for phase in settings.all_phases]
            sizes = [phase.batch_size * phase.seq_len for phase in settings.all_phases]
            every = {name: getattr(settings, name) for name in ("log_steps", "evaluate_steps", "save_steps", "probe_steps")}
            self.budget = TimeBudget(settings.minutes, self.schedule, shares, sizes, self.accumulation, **every, started=started)
            self.ends = self.budget.ends

    def finish(self):
        """Resume from the last checkpoint and train to the end of the run.

        Raises:
            StoppedError: a signal stopped the run.
            NonFiniteLossError: a loss or a weight is not a number.
        """
        start = self._restore()
        plan = self._spans(start)
        self.report({"step": start // self.accumulation})
        first = next(plan, None)
        if first is None:
            return
        if self.probes is not None:
            record_baselines(self.probes, self.folder, start // self.accumulation, again=self.budget is not None)
        ceiling = on_one_device()(matrix_ceiling)(keras.config.dtype_policy().compute_dtype) * self.where.devices
        table, written = None, start // self.accumulation  # the last step with a row
        if self.where.writes:
            names = columns(self.settings.learned, self.probes.columns if self.probes is not None else ())
            table = MetricsTable(self.folder / "metrics.csv", names, written)
        try:
            with (
                StopOnSignal() if self.where.hosts == 1 else StopTogether() as signals,
                RunLog(self.settings.log_to if self.where.writes else None, self.folder, self.settings.resolved()) as log,
            ):
                for span in itertools.chain([first], plan):
                    self._check_writer()
                    self._compile(span.phase)
                    row, step = self._train(span, signals, ceiling)
                    if span.evaluates and signals.received is None:
                        evaluated = self._evaluate(span.phase, lambda: signals.received is None)
                        if signals.received is None:  # otherwise a signal cut it short
                            row.update(evaluated)
                    if span.probes and signals.received is None:
                        row.update(self._probed(lambda: signals.received is None))
                    if row["step"] > written:  # otherwise a signal came before the first micro-batches made a step
                        written = row["step"]
                        if table is not None:
                            table.write(row)
                        log.write(row)
                        self.report(row if self.budget is None else {**row, "steps": self.budget.expected_steps})
                    # Read once: a later signal stops the next span. A callback may have stopped this one before its end.
                    stops = signals.received is not None or step < span.stop
                    if stops or span.saves:
                        self._save(step, row)
                    if stops:
                        break
                self._check_writer(wait=True)
                if signals.received is not None:  # also one that came while the last checkpoint was written
                    total = self.ends[-1] // self.accumulation if self.budget is None else self.budget.expected_steps
                    raise StoppedError(row["step"], total, signals.received)
        finally:
            self.writer.join()

    def averaged(self):
        """A context manager in which the model has its averaged weights, if it has any."""
        return contextlib.nullcontext() if self.settings.ema is None else averaged_weights(self.model)

    def _restore(self):
        self._compile(0)
        checkpoint = self.checkpoints.newest()
        check_agreement({f"the newest checkpoint in {self.checkpoints.path}": checkpoint and checkpoint.step})
        if checkpoint is None and self.settings.decay_from is not None:
            checkpoint = decay_checkpoint(self.settings)
        if checkpoint is None:
            return 0
        write_state(self.model, checkpoint.arrays())
        if self.budget is not None:
            self.budget.restore(checkpoint.facts["budget"])
            self.ends = self.budget.ends
        return checkpoint.step

    def _spans(self, start):
        """The spans of the rest of the run, one at a time: in a run in minutes, each depends on the time of the previous ones."""
        if self.budget is not None:
            return self.budget.spans(start)
        resolved = self.settings.resolved()
        every = [resolved[name] * self.accumulation for name in ("log_steps", "evaluate_steps", "save_steps")]
        every += [] if self.probes is None else [resolved["probe_steps"] * self.accumulation]
        return iter(step_spans(self.ends, start, *every))

    def _compile(self, phase):
        """Compile for a phase, since its examples may have more positions to predict than the previous phase."""
        if self.batches[phase].max_predictions == getattr(self, "_compiled_for", None):
            return
        self._compiled_for = self.batches[phase].max_predictions
        compile_model(
            self.model,
            optimizer=self.optimizer,
            max_predictions=self._compiled_for,
            loss_chunk=self.settings.loss_chunk,
            remat=self.settings.remat,
            jit_compile=self.settings.jit_compile,
        )
        self.optimizer.build(self.model.trainable_variables)

    def _train(self, span, signals, ceiling):
        """Train on a span; return its row of the metrics table, and the step after the last batch."""
        data = self.batches[span.phase]
        data.first_example = self._first_example(span.phase)
        first = self.ends[span.phase - 1] if span.phase else 0
        batches = SpanOfBatches(data, span.start - first, span.stop - first, self.settings.workers)
        whole = copy.copy(data)  # all rows, whichever host trained on them
        whole.process_index, whole.process_count = 0, 1
        batch_of = (lambda step: whole.batch(0, step - 1 - first)) if self.where.writes else None
        finite = StopOnNonFiniteLoss(self.folder, batch_of, span.start)
        seeds = TorchStepSeeds(self.settings.seed, span.start)
        started = time.perf_counter()
        logs = self.model.fit(
            _fed(batches, data.lengths), epochs=1, shuffle=False, verbose=0, callbacks=[seeds, finite, signals, *self.callbacks]
        ).history
        seconds = time.perf_counter() - started
        if self.budget is not None:
            self.budget.trained()
        if finite.problem is not None:
            raise NonFiniteLossError(f"{finite.problem[0].upper()}{finite.problem[1:]}")
        step = finite.step
        work = self._of_all_hosts(batches.work_of_first(step - span.start))
        flops = sum(trained_flops(part, work) for part in self.settings.learned.models(self.model.config, self.settings))
        row = {
            "step": step // self.accumulation,
            "phase": span.phase,
            "learning_rate": float(self.schedule(max(step // self.accumulation - 1, 0))),
            **self.settings.learned.quality_of({name: values[-1] for name, values in logs.items()}, self.settings),
            "tokens": work.tokens,
            "tokens_per_second": work.tokens / seconds,
            "flop_utilisation": flops / seconds / ceiling,
        }
        return row, step

    def _first_example(self, phase):
        """The index of the first example of a phase: it continues the epoch of the previous phase if both have the same length."""
        first = begun = 0
        for i in range(phase):
            before, begins = self.batches[i], self.ends[i]
            first = first + (begins - begun) * before.batch_size if before.seq_len == self.batches[i + 1].seq_len else 0
            begun = begins
        return first

    def _evaluate(self, phase, goes_on):
        data = (self.evaluations.value(goes_on) or {phase: None})[phase]
        if data is None:
            return {}
        first = FirstBatch()
        with self.averaged():
            logs = self.model.evaluate(_fed(data, data.lengths), verbose=0, return_dict=True, callbacks=[first])
        if self.budget is not None:
            self.budget.compiled(self.evaluations.waited + first.compiled)
        quality = {**self.settings.learned.quality_of(logs, self.settings), "pairs": data.distinct_pairs or None}
        return {f"held_out_{name}": value for name, value in quality.items()}

    def _probed(self, goes_on):
        """The scores of the probes for the weights that a row describes."""
        if self.probes is None:
            return {}
        with self.averaged():
            return self.probes.scores(goes_on)

    def _of_all_hosts(self, work):
        """The `Work` of batches over all hosts, of whose rows this host has a part."""
        rows = gathered([work.tokens, work.squares, work.predictions, work.examples])
        return Work(*(rows.sum(axis=0) * self.where.data_count // self.where.hosts).tolist())

    def _save(self, step, row):
        if not self.where.writes:
            state = FiniteState(self.model)
            with self._spoiled(step):
                for name in state.names:  # parts of it may be on this host only
                    state.read(name)
            return
        with self._spoiled(step):
            facts = {"row": row} if self.budget is None else {"row": row, "budget": self.budget.facts()}
            self.writer.save(step, self.model, facts, score=row.get("held_out_loss"))

    def _check_writer(self, wait=False):
        """Raise the error of a checkpoint that was written in the background, if any."""
        with self._spoiled():
            self.writer.wait() if wait else self.writer.check()

    @contextlib.contextmanager
    def _spoiled(self, step=None):
        """Raise a `NonFiniteLossError` that names the step; a `CheckpointWriter` provides it, since it may be an earlier one."""
        try:
            yield
        except FloatingPointError as error:
            step = getattr(error, "step", step) // self.accumulation
            raise NonFiniteLossError(f"After step {step} {error}; no checkpoint of it was written.") from None


def _fed(batches, lengths):
    """The batches in the form that `fit` needs: on TensorFlow, a `tf.data.Dataset` if they have several lengths."""
    if lengths is None or not traits.needs_tf_data_for_several_lengths():
        return batches
    from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_epoch_of_batches

    return tf_epoch_of_batches(batches)
