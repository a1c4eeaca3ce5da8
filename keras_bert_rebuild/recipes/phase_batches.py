"""The batches that a phase of a run trains and is evaluated on."""

from keras_bert_rebuild.data.pretraining_batches import PretrainingBatches


def training_batches(corpus, phase, settings, **changes):
    """The batches of a phase, all of them one epoch.

    Args:
        corpus: the documents to train on, a `TokenStore` or another `TokenCorpus`.
        phase: a `Phase`.
        settings: the `PretrainSettings` of its run.
        **changes: arguments of `PretrainingBatches` that override these.

    Returns:
        A `PretrainingBatches`; with accumulation a batch is a micro-batch. It has all rows unless `changes` name a process.
    """
    accumulation = settings.gradient_accumulation_steps
    arguments = {
        "seed": settings.seed,
        "steps_per_epoch": phase.steps * accumulation,
        "next_sentence": None if settings.next_sentence == "none" else settings.next_sentence,
        "masking": settings.masking,
        "mask_rate": settings.mask_rate,
        "short_seq_prob": settings.short_seq_prob,
        "lengths": [n for n in settings.lengths if n <= phase.seq_len] or None,
        "workers": settings.workers,
    }
    rows = phase.batch_size // accumulation
    return PretrainingBatches(corpus, rows, phase.seq_len, phase.max_predictions, **{**arguments, **changes})


def held_out_batches(corpus, phase, settings, **changes):
    """The batches to evaluate on, the same at every evaluation, so that the numbers are comparable."""
    others = {"seed": settings.seed + 1, "steps_per_epoch": settings.evaluation_steps, "repeat": True}
    return training_batches(corpus, phase, settings, **others, **changes)
