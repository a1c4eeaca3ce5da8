"""Fine-tuning as one call: from an encoder and a file of examples to a task that answers."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_bert_rebuild.files.folders import written_again
from keras_bert_rebuild.files.hub import origin_of
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.pretrained.card_files import write_card
from keras_bert_rebuild.pretrained.find_checkpoint import located_model
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.pretrained.model_card import Training as CardTraining
from keras_bert_rebuild.pretrained.retriever_folder import READERS as RETRIEVERS
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
from keras_bert_rebuild.recipes.finetuning.data_parts import read_data
from keras_bert_rebuild.recipes.finetuning.finetune_callback import (
    COLUMNS,
    FinetuneCallback,
    FinetuneCheckpoints,
    RestOfEpoch,
    Training,
    evaluate_task,
)
from keras_bert_rebuild.recipes.finetuning.finetune_data import (
    check_examples,
    check_options,
    count_in_training,
    loss_weights,
    print_understood,
    shared_lengths,
    understood,
)
from keras_bert_rebuild.recipes.finetuning.finetune_report import REPORTS, bm25_scores, write_report
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.recipes.metrics_table import MetricsTable
from keras_bert_rebuild.recipes.run_folder import RunFolder
from keras_bert_rebuild.recipes.run_log import RunLog
from keras_bert_rebuild.tasks.registry import finetune_task
from keras_bert_rebuild.tasks.row_predictions import compile_predictions_ahead
from keras_bert_rebuild.tasks.saved_task import load_task, saved_kind
from keras_bert_rebuild.training.lora import add_lora, save_lora, without_lora
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import AdamW
from keras_bert_rebuild.training.optimizers.path_patterns import freeze, layer_rates, matches_any
from keras_bert_rebuild.training.optimizers.rate_schedules import WarmupLinearDecay
from keras_bert_rebuild.training.state.callbacks import StopOnSignal
from keras_bert_rebuild.training.state.seeds import TorchStepSeeds

# Settings of a task that affect its training only: those of another run are not used.
OF_TRAINING = ("example_kind", "objective", "negatives", "positive_weight", "scale", "score_range", "flops", "flops_steps")


@dataclass
class Finetuned:
    """The result of a fine-tuning."""

    task: Any
    """The task with the best weights, ready to answer."""

    scores: dict
    """The scores of the best weights on the dev examples."""

    test_scores: dict | None
    """The scores of the best weights on the test examples, if there are any."""

    report: dict
    """The content of report.json."""


def finetune(
    task: str,
    model: str | Path | keras.Model,
    train: Any,
    dev: Any = None,
    output: str | os.PathLike[str] | None = None,
    settings: FinetuneSettings | dict[str, Any] | None = None,
    *,
    test: Any = None,
    report: Callable[[dict[str, Any]], object] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **changes: Any,
) -> Finetuned:
    """Fine-tune a model for a task, or resume an interrupted run, and save the best weights.

    The folder gets `settings.yaml`, `versions.yaml`, `metrics.csv`, the best weights in `model/`, a Hugging Face folder that
    `load_task` reads, with the scores in its card, README.md, and at the end `report.json`, `report.md` and, for tasks with labels,
    `confusion.svg`; with `lora_rank` also `adapters.safetensors`. Nothing is written before all examples have been read and
    checked.

    Args:
        task: "classification", "multi_label", "regression", "token_classification", "question_answering", "similarity",
            "retrieval", "labelled_similarity" or "multiple_choice".
        model: the path of a checkpoint, as for `from_pretrained`, or a loaded or trained model. A trained head of the same task and
            labels is kept, and of a folder of the same kind of task also the settings, such as poolings; `new_head` draws another.
        train: examples, as for `read_examples`: a file, a list of dictionaries, a DataFrame, a `datasets.Dataset` and others; or a
            `datasets.DatasetDict`, whose splits for dev and test are used if these are None.
        dev: the same, to choose the best weights on; None for a tenth of the training examples, see `take_dev`.
        output: the folder of the run, which may hold an earlier start of the same run. If that was interrupted, it resumes from its
            last checkpoint, at the exact batch, and reaches the same weights. If it finished, it starts again, and its results are
            retained until there are new ones.
        settings: `FinetuneSettings`, or a dictionary of them; None for the defaults.
        test: examples to evaluate the best weights on once, at the end; None for none.
        report: called with every row of the metrics table, a dictionary; the first has the total number of `steps`, and in one line
            what was understood of the `data`. None to print this line.
        callbacks: Keras callbacks for `fit`, which a resumed run may call twice. If one stops the training, the run is finished.
        **changes: single fields of `FinetuneSettings`, which override those of `settings`.

    Returns:
        A `Finetuned`.

    Raises:
        ValueError: settings, examples or labels are invalid, the folder holds another run, or a loss is NaN or infinite.
        BusyError: another process trains in the folder.
        StoppedError: a signal stopped the run; its last step is in a checkpoint.
    """
    spec, settings = finetune_task(task), FinetuneSettings.of(settings, **changes)
    RunLog.check(settings.log_to)
    if output is None:
        raise ValueError("expected output=, the folder of the run; got None.")
    paths = [source for source in (model, train, dev, test) if isinstance(source, (str, Path))]
    with claimed_run(output, RUN, paths):
        return _finetune(spec, model, (train, dev, test), Path(output), settings, report or print_understood, callbacks)


def _finetune(spec, model, parts, output, settings, report, callbacks):
    started = time.perf_counter()
    if settings.metric not in (None, *spec.metrics):
        raise ValueError(f"metric must be one of {', '.join(spec.metrics)}; got {settings.metric!r}.")
    check_options(spec, settings)
    data = read_data(*parts, spec, settings)
    examples = data.examples
    check_examples(examples, spec, data.sources["train"])
    weights = loss_weights(examples["train"], spec, settings)
    keras.utils.set_random_seed(settings.seed)
    model = located_model(model) if isinstance(model, (str, Path)) else model
    made = make_task(spec, model, examples["train"], settings)
    encoded = {name: made.encode(rows) for name, rows in examples.items()}  # refuses labels that are not in the set
    made.row_lengths = shared_lengths(encoded, settings, made.max_len)
    # A smaller batch would be compiled separately, and the devices of a `keras.distribution` could not share it.
    fills = made.ignored_label is not None and traits.compiles_each_shape()
    filled = {"filling": made.ignored_label} if fills else {}
    batches = made.batches(encoded["train"], settings.batch_size, seed=settings.seed, workers=settings.workers, **filled)
    steps = settings.steps or settings.epochs * len(batches)
    adapt(made.model, settings)  # before a training model shares its layers
    schedule = WarmupLinearDecay(settings.learning_rate, int(settings.warmup * steps), steps)
    compile_task(made, settings, schedule, weights)
    described = {
        "task": spec.name,
        "model": str(origin_of(model) or model) if isinstance(model, (str, Path)) else "a model of this process",
        **data.sources,
        **settings.resolved(),
    }
    RunFolder(output, described)
    # Results of an earlier, finished start of the run belong to other weights; they are retained until there are new ones.
    finished = (output / REPORTS[0]).is_file()
    with written_again(output) if finished else contextlib.nullcontext(output) as folder:
        ahead = lambda logs: compile_predictions_ahead(made, encoded["dev"], settings.batch_size)  # noqa: E731
        compiles = keras.callbacks.LambdaCallback(on_train_begin=ahead)  # when the training step is already being compiled
        training = Training(made, spec, settings, examples, batches, schedule, data.line)
        with RunLog(settings.log_to, folder, described) as log:
            trained = _train(training, folder, report, log, [compiles, *callbacks])
        done = _evaluate(trained, folder, described, started)
        trained.checkpoints.remove()
        return done


def _train(training, folder, report, log, callbacks):
    """Train to the end, save the best weights in `folder`, and return the callback that selected them."""
    made, settings, batches, steps = training.task, training.settings, training.batches, training.schedule.total_steps
    signals = StopOnSignal()
    checkpoints = FinetuneCheckpoints(folder, settings.save_steps, signals)
    start, facts = checkpoints.restore(made.training_model)
    table = MetricsTable(folder / "metrics.csv", (*COLUMNS, *(f"dev_{name}" for name in training.spec.metrics)), start)
    report({"step": start, "steps": steps, **understood(made, training.data_line)})

    def save():
        made.save(folder / "model")
        if settings.lora_rank is not None:
            save_lora(made.model, folder / "adapters.safetensors")

    callback = FinetuneCallback(training, (table, log), report, save, checkpoints, start, facts)
    callbacks = [TorchStepSeeds(settings.seed, start), callback, signals, *callbacks]
    epochs, (epoch, first) = -(-steps // len(batches)), divmod(start, len(batches))
    with signals:
        if first:
            rest = RestOfEpoch(batches, epoch, first)
            made.training_model.fit(rest, initial_epoch=epoch, epochs=epoch + 1, shuffle=False, verbose=0, callbacks=callbacks)
            epoch += 1
        batches.epoch = epoch
        if epoch < epochs and not (callback.is_over or checkpoints.stops or made.training_model.stop_training):
            made.training_model.fit(batches, initial_epoch=epoch, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    checkpoints.finish(callback)
    callback.finish()
    return callback


def _evaluate(callback, folder, described, started):
    """Measure the best weights and write the report."""
    training, examples, batch_size = callback.training, callback.training.examples, callback.settings.batch_size
    best = training.task if callback.best_step == callback.step else load_task(folder / "model")
    best.row_lengths = training.task.row_lengths
    report = {
        "task": training.spec.name,
        "metric": callback.metric,
        "best_step": callback.best_step,
        "steps": callback.step,
        "examples": {name: len(rows) for name, rows in examples.items()},
        "in_train": {name: count_in_training(rows, examples["train"]) for name, rows in examples.items() if name != "train"},
        "dev": callback.best.scores,
        "train_seconds": round(callback.train_seconds, 2),
        **understood(training.task, training.data_line),
    }
    evaluation, name = callback.best, "dev"
    if evaluation.answers is None and "test" not in examples:  # an earlier process saved them
        evaluation = evaluate_task(best, examples["dev"], batch_size)
    if "test" in examples:
        evaluation, name = evaluate_task(best, examples["test"], batch_size), "test"
        report["test"] = evaluation.scores
    report["seconds"] = round(time.perf_counter() - started, 2)
    report.update(bm25_scores(best, examples[name], evaluation.answers) | best.details(examples[name], evaluation.answers))
    write_report(folder, report, described)
    data = {name: (Path(described[name]).name, len(rows)) for name, rows in examples.items()}
    scores = {name: report[name] for name in ("dev", "test") if name in report}
    trained = CardTraining(data, scores, training.settings.resolved())
    write_card(folder / "model", without_lora(best.model_to_save()), training=trained)
    return Finetuned(best, report["dev"], report.get("test"), report)


def make_task(spec, model, examples, settings):
    """The task for the labels of the examples, with the head and settings of a trained task where they fit: see `head_origin`."""
    arguments = {"seed": settings.seed, "dtype": settings.dtype}
    if settings.dropout is not None:
        arguments["rates"] = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), settings.dropout)
    arguments |= spec.settings_for(examples, settings)
    arguments |= {name: value for name in ("max_len", "stride") if (value := getattr(settings, name)) is not None}
    kind = _kind_of_folder(model, spec.kind) if isinstance(model, (str, Path)) and not settings.new_head else None
    if kind == spec.kind:
        return _trained_further(spec, load_task(model, kind), arguments)
    encoder = from_pretrained(model) if isinstance(model, (str, Path)) else model
    made = spec.task_class.from_encoder(encoder, **arguments, new_head=settings.new_head or kind is not None)
    if kind is not None:
        made.head_origin = f"newly initialised: the model's is for {kind}"
    return made


def _kind_of_folder(path, wanted):
    """The kind of the task that a folder was saved by, or, where a retrieval model is wanted, that its files describe."""
    retriever = read_retriever_folder(path) if wanted in RETRIEVERS and Path(path).is_dir() else None
    return saved_kind(path) or (None if retriever is None else retriever.kind)


def _trained_further(spec, trained, arguments):
    """The task on a trained one of its kind, with those of its settings that affect its answers."""
    kept = {name: value for name, value in trained.settings().items() if name not in OF_TRAINING}
    if "max_len" in arguments:
        kept.pop("stride", None)
    if "prompts" in arguments:
        arguments["prompts"] = {**kept.get("prompts", {}), **arguments["prompts"]}
    if getattr(trained, "modules", None) is not None:
        kept["modules"] = trained.modules
    encoder = trained.model_to_save()
    encoder.load_report.tokenizer_files = trained.tokenizer_files
    made = spec.task_class.from_encoder(encoder, **{**kept, **arguments}, new_head=False)
    made.head_origin = made.head_origin or "kept"
    return made


def adapt(model, settings):
    """Add adapters and freeze weights as the settings say."""
    if settings.lora_rank is not None:
        add_lora(model, settings.lora_rank)
    if settings.freeze:
        freeze(model, list(settings.freeze))


def compile_task(task, settings, schedule, class_weights=None):
    """Compile with the optimizer of the settings."""
    optimizer = AdamW(
        schedule,
        weight_decay=settings.weight_decay,
        rate_multipliers=rate_multipliers(task, settings),
        global_clipnorm=settings.clip_norm,
    )
    task.compile(optimizer, class_weights=class_weights, jit_compile=settings.jit_compile)


def rate_multipliers(task, settings):
    """Learning rate multipliers by path of the trainable variables; None if all are 1."""
    rates = {**layer_rates(task.model, settings.layer_decay, settings.head_rate), **task.rate_multipliers()}
    paths = [variable.path for variable in task.training_model.trainable_variables]
    used = {pattern: rate for pattern, rate in rates.items() if any(matches_any(path, [pattern]) for path in paths)}
    return used if any(rate != 1 for rate in used.values()) else None
