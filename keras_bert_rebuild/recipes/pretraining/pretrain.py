"""Pretraining as one call that can be interrupted and resumed: from a token store to a model."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.corpora.document_groups import count_groups
from keras_bert_rebuild.data.corpora.documents import corpus_digest
from keras_bert_rebuild.data.corpora.held_out import draw_held_out, unseen
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.random_numbers import keys
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.files.kinds import RUN
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import dtype_scope
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained import save_pretrained
from keras_bert_rebuild.pretrained.card_files import write_card
from keras_bert_rebuild.pretrained.model_card import Training as CardTraining
from keras_bert_rebuild.recipes.metrics_table import read_curves
from keras_bert_rebuild.recipes.pretraining.background import Background
from keras_bert_rebuild.recipes.pretraining.decay_from import with_decay
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import OF_A_START, PretrainSettings
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError, StoppedError, TrainingRun
from keras_bert_rebuild.recipes.probing.probe_files import described_probes, probe_files, read_probe
from keras_bert_rebuild.recipes.probing.probes import Probes
from keras_bert_rebuild.recipes.run_folder import FREE, RunFolder
from keras_bert_rebuild.recipes.run_log import RunLog
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer
from keras_bert_rebuild.training.distributed.distribution import choose_devices, whole_model
from keras_bert_rebuild.training.distributed.hosts import DisagreementError, check_agreement, trained_together

# Position of the key from which a phase draws its seed; mixtures draw theirs at 1.
_PHASE = 2

# Batches of a run in minutes: more than there is time for.
ENDLESS = 1 << 40

# Seconds that a start waits for a corpus to be verified and for the held-out text to be compared with it; then it trains meanwhile.
_WAITS = 3.0


def training_batches(corpus, phase, settings, **changes):
    """The batches of a phase, in a single epoch.

    Args:
        corpus: the documents to train on, a `TokenStore` or another `TokenCorpus`.
        phase: a `Phase`.
        settings: the `PretrainSettings` of its run.
        **changes: arguments of `PretrainingBatches` that override these.

    Returns:
        A `PretrainingBatches`; with gradient accumulation, of micro-batches. It has all rows unless `changes` name a process.
    """
    accumulation = settings.gradient_accumulation_steps
    arguments = {
        "seed": settings.seed,
        "steps_per_epoch": ENDLESS if settings.minutes is not None else phase.steps * accumulation,
        **settings.learned.batches(settings),
        "masking": settings.masking,
        "mask_rate": settings.mask_rate,
        "short_seq_prob": settings.short_seq_prob,
        "lengths": [n for n in settings.lengths if n <= phase.seq_len] or None,
        "workers": settings.workers,
    }
    rows = phase.batch_size // accumulation
    settings_of_rows = {"packed": settings.packing, **arguments, **changes}
    return pretraining_batches(corpus, rows, phase.seq_len, phase.max_predictions, **settings_of_rows)


def batches_of_phases(corpus, settings, **changes):
    """The batches of all phases, see `training_batches`; a phase whose length differs from the previous one's draws its own.

    Args:
        corpus, settings, **changes: see `training_batches`.
    """
    seed, before, batches = settings.seed, None, []
    for i, phase in enumerate(settings.all_phases):
        if before not in (None, phase.seq_len):
            seed = int(keys(settings.seed, i, _PHASE))
        before = phase.seq_len
        batches.append(training_batches(corpus, phase, settings, seed=seed, **changes))
    return batches


def held_out_batches(corpus, phase, settings, **changes):
    """The batches to evaluate on, the same at every evaluation so that metrics are comparable."""
    own = {"seed": settings.seed + 1, "steps_per_epoch": settings.evaluation_steps, "repeat": True}
    return training_batches(corpus, phase, settings, **own, **changes)


def pretrain(
    store: Any,
    output: str | os.PathLike[str],
    settings: PretrainSettings | dict[str, Any] | None = None,
    *,
    report: Callable[[dict[str, Any]], object] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **changes: Any,
) -> BertModel:
    """Pretrain a BERT, an ELECTRA or an XLNet on a token store, or resume an interrupted run.

    The folder gets `settings.yaml`, `versions.yaml`, `metrics.csv`, `checkpoints/`, with probes their
    baselines in `probes.yaml`, and at the end `model/`, a Hugging Face folder with the vocabulary (or a Keras folder if Hugging
    Face has no names for the heads). With the objective "electra", `model/` is the discriminator and `generator/` the generator.
    Called again with the same arguments, it resumes from the last checkpoint at the exact batch and reaches the same weights as an
    uninterrupted run; if the run has finished, it loads the model. Nothing is written before the model and its batches have been
    created.

    On several hosts, call it on each with the same arguments except `host_index`, and with a folder that all of them can read:
    host 0 writes it, and all read checkpoints from it. If one host stops, all do (`trained_together`).

    Args:
        store: a `TokenStore`, the folder of one as `keras-bert prepare` writes it, or another `TokenCorpus`, such as a
            `MixedCorpus` of several stores.
        output: the folder of the run.
        settings: `PretrainSettings`, or a dictionary of them; None for the defaults.
        report: called on host 0 with every row of the metrics table, a dictionary; None for none. See `training_run.columns`.
        callbacks: Keras callbacks for `fit`, which a run calls for one epoch between any two rows of the table. If one stops the
            training, the run is finished; called again, it resumes.
        **changes: single fields of `PretrainSettings`, which override those of `settings`.

    Returns:
        The model, with the averaged weights if `ema` is set; it takes one sequence per row even after `packing`. With the objective
        "electra" a `ReplacedTokenModel`, with "xlnet" a `PermutationModel`.

    Raises:
        ValueError: settings are invalid, the folder holds another run, the store is incomplete or has changed, all held-out
            passages also occur in training, or a file of a probe is invalid.
        BusyError: another process trains in the folder.
        StoppedError: a signal stopped the run; the last step is in a checkpoint.
        NonFiniteLossError: a loss is NaN or infinite; its batch is saved in the folder.
    """
    if settings is None or isinstance(settings, dict):
        settings = PretrainSettings.from_dict({**(settings or {}), **changes})
    else:
        settings = replace(settings, **changes)
    started = time.monotonic()
    RunLog.check(settings.log_to)
    settings = with_decay(settings, output)
    where = choose_devices(settings.distribute, **{name: getattr(settings, name) for name in ("model_devices", *OF_A_START)})
    _check_batches(settings, where)
    inputs = [path for path in (store, *settings.read_paths) if isinstance(path, (str, Path))]
    with (
        trained_together(ends_together=(StoppedError, NonFiniteLossError, DisagreementError)),
        claimed_run(output, RUN, inputs) if where.writes else contextlib.nullcontext(),
    ):
        return _pretrain(store, output, settings, where, report, started, callbacks)


def _check_batches(settings, where):
    """Refuse batches that the devices cannot share."""
    accumulation = settings.gradient_accumulation_steps
    for phase in settings.all_phases:
        where.check_batch("batch_size / gradient_accumulation_steps", phase.batch_size // accumulation)
    if where.kind == "mirrored" and accumulation > 1:
        raise ValueError(
            f"gradient_accumulation_steps must be 1 with distribute='mirrored', where Keras cannot accumulate; got {accumulation}. "
            "KERAS_BACKEND=jax and 'data' can."
        )


def _pretrain(store, output, settings, where, report, started, callbacks):
    corpus = TokenStore(store) if isinstance(store, (str, Path)) else store
    # A corpus in memory has nothing to verify.
    verified = Background(getattr(corpus, "verify", lambda: None) if settings.verify else lambda: None)
    verified.is_done(_WAITS)
    read = [read_probe(files, settings.probe_examples, settings.seed) for files in probe_files(settings.probes)]
    groups = [count_groups(part) for part in getattr(corpus, "parts", [corpus])]
    described = {**settings.resolved(), **described_probes(read), "corpus": _described(corpus)}
    if max(groups) > 1:  # earlier versions drew other examples from such a corpus
        described["document_groups"] = groups
    check_agreement(described)
    output = Path(output)
    train, drawn = draw_held_out(corpus, settings.held_out, settings.seed) if settings.held_out else (corpus, None)
    keras.utils.set_random_seed(settings.seed)
    rows = {"process_index": where.data_index, "process_count": where.data_count}
    with dtype_scope(settings.dtype), where:
        model = settings.learned.make(corpus, settings)
        rows["segments"] = model.config.type_vocab_size > 0
        probes = _make_probes(model, read, corpus, settings)
        batches = batches_of_phases(train, settings, **rows)
        evaluations = Background(lambda: _evaluations(drawn, train, settings, rows))
        is_compared = evaluations.is_done(_WAITS)
        if where.writes:  # not earlier: a run that fails to start must leave no settings that the next attempt would have to match
            start = {"distribute": where.kind, "devices": where.devices, "hosts": where.hosts}
            run_folder = RunFolder(output, described, {**start, "held_out": _counted(evaluations) if is_compared else None})
        report = report if where.writes else None
        base = getattr(getattr(model, "load_report", None), "base", {})
        run = TrainingRun(
            model, settings, output, batches, evaluations, report, where, started, probes, [*callbacks, verified, evaluations]
        )
        run.finish()
        verified.value()
        if where.writes:
            run_folder.record({"held_out": _counted(evaluations)})
        with run.averaged():
            for folder, (part, copied) in zip(settings.learned.folders, settings.learned.results(model, settings), strict=True):
                whole = whole_model(part, copied)
                if where.writes:
                    save_pretrained(whole, output / folder, _format(part), vocabulary=settings.learned.vocabulary(corpus, settings))
                    trained = described_training(store, corpus, settings, _last_held_out(output) if settings.held_out else {})
                    write_card(output / folder, whole, base=base, training=trained)
                    if part is model and settings.packing:
                        model = whole
    return model


def _evaluations(held_out, train, settings, rows):
    """For every phase the batches to evaluate on, or None without held-out documents; the training text is read once."""
    if held_out is None:
        return [None] * len(settings.all_phases)
    held_out = unseen(held_out, train)
    return [held_out_batches(held_out, phase, settings, **rows) for phase in settings.all_phases]


def described_training(name, corpus, settings, scores):
    """What the card of a model says of its run.

    Args:
        name: the path of the corpus; anything else is a corpus of this process.
        corpus: a `TokenCorpus`.
        settings: `PretrainSettings`.
        scores: those of held-out text, by name; empty without any.
    """
    name = Path(name).name if isinstance(name, (str, Path)) else "a corpus of this process"
    settings = {field: value for field, value in settings.resolved().items() if field not in FREE}
    return CardTraining({"corpus": (name, int(corpus.num_tokens))}, {"held out": scores} if scores else {}, settings, "tokens")


def _last_held_out(output):
    """The last scores of held-out text in the curve of a run; empty without a curve that can be read."""
    try:
        curves = read_curves(output)
    except ValueError:  # a callback may have stopped the run before its first row
        return {}
    return {name: curve[-1][1] for name, curve in curves.items() if name.startswith("held_out_") and curve}


def _format(model):
    """Hugging Face's format, unless it has no names for the family or the heads, such as sentence order on a BERT."""
    if model.config.family not in FAMILIES:
        return "keras"
    heads = FAMILIES[model.config.family].HUGGINGFACE.heads
    return "huggingface" if set(heads_of(model)) <= set(heads) else "keras"


def _make_probes(model, read, corpus, settings):
    """The `Probes` of a run; None without files. Texts are cut to its shortest rows, whose positions are all trained."""
    if not read:
        return None
    encoder = settings.learned.results(model, settings)[0][0]
    tokenizer = WordPieceTokenizer(list(corpus.vocabulary), cased=getattr(corpus, "cased", None))
    return Probes(read, encoder, tokenizer, min(phase.seq_len for phase in settings.all_phases))


def _counted(evaluations):
    """What is evaluated: documents, passages and the fraction of passages that training has in another context; None if nothing."""
    held_out = getattr(evaluations.value()[0], "store", None)
    if held_out is None:
        return None
    parts = getattr(held_out, "parts", [held_out])
    passages = [len(part.passage_starts) - 1 for part in parts]
    repeated = sum(part.repeated * count for part, count in zip(parts, passages, strict=True)) / sum(passages)
    documents = sum(len(np.unique(part.texts)) for part in parts)
    return {"documents": documents, "passages": sum(passages), "repeated": round(repeated, 3)}


def _described(corpus):
    """What identifies a corpus."""
    return {
        "tokens": int(corpus.num_tokens),
        "documents": len(corpus.document_starts) - 1,
        "vocabulary": len(corpus.vocabulary),
        "first_ids": np.asarray(corpus.ids_at(np.arange(min(8, corpus.num_tokens)))).tolist(),
        "sha256": corpus_digest(corpus),
        **({"mixed": corpus.described()} if isinstance(corpus, MixedCorpus) else {}),
    }
