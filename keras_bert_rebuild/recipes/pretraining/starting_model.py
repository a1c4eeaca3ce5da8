"""The initial model of a pretraining run: a new one, or a checkpoint that matches the corpus."""

from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.pretrained import from_pretrained


def starting_model(corpus, settings):
    """The model of a run, not yet compiled.

    Args:
        corpus: the `TokenCorpus` of the run.
        settings: its `PretrainSettings`.

    Raises:
        ValueError: a checkpoint does not match the corpus, or an example has more tokens than the model has positions.
    """
    tables = vocabulary_tables(corpus.vocabulary)
    if settings.init is None:
        config = settings.model_config(len(corpus.vocabulary), tables.pad_id)
        check_positions("the model", config, settings)
        return settings.learned.build(config, settings)
    # Not strict: a checkpoint may lack these heads; a warning names what is newly initialised.
    model = from_pretrained(settings.init, heads=settings.heads, strict=False)
    config = model.config
    for what, found, expected in (
        ("tokens in its vocabulary", config.vocab_size, len(corpus.vocabulary)),
        ("the id of padding", config.pad_token_id, tables.pad_id),
    ):
        if found != expected:
            raise ValueError(f"{settings.init} must match the store: expected {expected} as {what}; got {found}.")
    check_positions(settings.init, config, settings)
    if not settings.packing:
        return model
    packed = settings.learned.build(config, settings)
    for weight, value in zip(packed.weights, model.weights, strict=True):
        weight.assign(value)
    return packed


def check_positions(name, config, settings):
    """Refuse examples of more tokens than a model has positions.

    Args:
        name: what the model is called in the error.
        config: its `BertConfig`.
        settings: `PretrainSettings`.

    Raises:
        ValueError: a phase has longer examples.
    """
    longest = max(phase.seq_len for phase in settings.all_phases)
    if longest > config.max_length:
        raise ValueError(f"{name} has {config.max_length} positions; a phase has examples of {longest} tokens.")
