"""From text files to a pretrained encoder by a recipe: vocabulary, tokens, plan, training and score, resumed at any stage."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from keras_bert_rebuild.data.corpora.held_out import count_training_words, split_documents
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.prepare import prepare
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader, WordCounts
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.files.kinds import RECIPE, STORE, folder_kind
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.pretrained.card_files import base_of, write_card
from keras_bert_rebuild.recipes.pretraining.masked_score import MaskedScore, masked_score
from keras_bert_rebuild.recipes.pretraining.pretrain import described_training, pretrain
from keras_bert_rebuild.recipes.pretraining.recipe import UTILISATION, Recipe, RecipePlan, choose_size, plan_of, read_recipe
from keras_bert_rebuild.recipes.pretraining.recipe_folder import RecipeFolder
from keras_bert_rebuild.recipes.step_costs import matrix_ceiling
from keras_bert_rebuild.text.vocabulary import save_vocabulary, train_vocabulary
from keras_bert_rebuild.training.distributed.distribution import choose_devices


class Quiet:
    """Receives the progress of a training by a recipe and shows nothing; a subclass may show it."""

    def reading(self, what: str, file_bytes: int) -> contextlib.AbstractContextManager[Any]:
        """A context manager for the reading of files, whose value is called with the bytes read of the files, and of their text."""
        return contextlib.nullcontext(lambda file_bytes, text_bytes: None)

    def vocabulary(self, tokens: int, words: int) -> None:
        """A vocabulary was learned from this number of words."""

    def prepared(self, prepared: Any) -> None:
        """A corpus was tokenised, `Prepared`."""

    def planned(self, plan: Any) -> None:
        """The run is planned, `RecipePlan`, and begins."""

    def training(self, steps: int | None) -> contextlib.AbstractContextManager[Any]:
        """A context manager for the training, whose value is called with every row of the curve."""
        return contextlib.nullcontext(lambda row: None)


# Settings that a recipe does not accept, and why.
REFUSED = {
    "decay_from": "continues a run with its own settings",
    "decay_step": "is a step of the run in decay_from",
    **dict.fromkeys(
        ("hosts", "host_index", "coordinator"),
        "is for tokens that all hosts see: prepare them, and give every host the same settings",
    ),
}

# Models of other objectives have no head that fills masks.
_SCORED = {"mlm": "model", "electra": "generator"}


@dataclass(frozen=True)
class RecipeResult:
    """The result of a training by a recipe."""

    model: BertModel
    """The trained model."""

    folder: Path
    """Its folder, for `from_pretrained`."""

    plan: RecipePlan
    """The plan it was trained by."""

    score: MaskedScore | None
    """Its score on masked tokens in held-out text; None without held-out text, or with an objective that fills no masks."""


def pretrain_recipe(
    corpora: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    recipe: str | os.PathLike[str] = "modern",
    *,
    vocabulary: str | os.PathLike[str] | None = None,
    vocab_size: int | None = None,
    mix: Sequence[float] | None = None,
    processes: int | None = None,
    document_per_file: bool = False,
    tell: Quiet | None = None,
    **settings: Any,
) -> RecipeResult:
    """Pretrain an encoder on text files by a recipe, or resume a training that was interrupted at any stage.

    The vocabulary is learned from the training documents; the corpora are tokenised with it; the size of the model is chosen for
    the budget and the speed of the devices; the run trains as `pretrain` does; and the result is scored on the held-out documents.
    The folder gets `recipe.yaml` with the decisions, `vocab.txt`, `tokens/`, `run/` (see `pretrain`) and `score.yaml`. Called again
    with the same arguments, it resumes where it was interrupted, with the same decisions.

    Args:
        corpora: text files or folders of them, see `CorpusReader`, or token stores with a vocabulary, as `prepare` writes them.
            Several are mixed.
        output: the folder for all results.
        recipe: "bert", "modern" or a YAML file with the fields of `Recipe`.
        vocabulary: a file with one token per line, instead of learning one.
        vocab_size: tokens to learn, instead of the recipe's number.
        mix: a weight for every corpus; None for weights in proportion to their tokens.
        processes: number of processes that tokenise; None for one per core.
        document_per_file: each file is one document, regardless of blank lines.
        tell: receives the progress, a `Quiet` or a subclass.
        **settings: fields of `PretrainSettings`, which override those of the recipe; `minutes` or `steps` is required.

    Returns:
        A `RecipeResult`.

    Raises:
        ValueError: settings are invalid or contradict each other, or the folder holds another training.
        StoppedError: a signal stopped the training; the last step is in a checkpoint.
    """
    tell = tell or Quiet()
    paths = [Path(corpus) for corpus in ([corpora] if isinstance(corpora, (str, os.PathLike)) else corpora)]
    chosen, given = _checked(recipe, settings, vocab_size)
    stores = _are_stores(paths)
    _check_text_options(stores, vocabulary=vocabulary, vocab_size=vocab_size, document_per_file=document_per_file or None)
    if vocabulary is not None and vocab_size is not None:
        raise ValueError(f"vocab_size is for a vocabulary to learn; got {vocab_size} and the vocabulary {vocabulary}.")
    if mix is not None and len(mix) != len(paths):
        raise ValueError(f"mix must have a weight for every corpus; got {len(mix)} for {len(paths)}.")
    split = chosen.settings(*_any_size(given))
    inputs = [*paths, *(path for path in (vocabulary, given.get("init")) if path is not None)]
    with claimed_run(output, RECIPE, inputs):
        folder = RecipeFolder(output, chosen, given, paths, vocabulary, mix, document_per_file)
        if stores:
            prepared = paths
        else:
            words = (split.held_out, split.seed, document_per_file)
            learned = Path(vocabulary) if vocabulary is not None else _vocabulary(folder, chosen, paths, words, tell)
            cased = None if vocabulary is not None else chosen.cased
            prepared = [
                _tokens(corpus, path, learned, cased, processes, document_per_file, tell)
                for corpus, path in zip(paths, folder.stores(len(paths)), strict=True)
            ]
        corpus = prepared[0] if len(prepared) == 1 else MixedCorpus(prepared, mix)
        opened = TokenStore(corpus) if isinstance(corpus, Path) else corpus
        plan = _plan(folder, chosen, given, opened)
        tell.planned(plan)
        with tell.training(None if plan.settings.minutes is not None else plan.steps) as report:
            model = pretrain(corpus, folder.run, plan.settings, report=report)
        score = _score(folder, plan.settings, opened)
        if score is not None and _SCORED[plan.settings.objective] == "model":
            named = ", ".join(path.name for path in paths)
            trained = described_training(named, opened, plan.settings, asdict(score))
            write_card(folder.run / "model", model, base=base_of(folder.run / "model"), training=trained)
    return RecipeResult(model, folder.run / plan.settings.learned.folders[0], plan, score)


def _checked(recipe, settings, vocab_size):
    """The recipe, and the settings that the user overrides."""
    chosen = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    given = {name: value for name, value in settings.items() if value is not None}
    for name, reason in REFUSED.items():
        if name in given:
            raise ValueError(f"{name} must be left out with a recipe: it {reason}.")
    if "minutes" not in given and "steps" not in given:
        raise ValueError("a recipe needs a budget: minutes of training, or steps.")
    if vocab_size is not None:
        values = {field.name: getattr(chosen, field.name) for field in fields(chosen)}
        chosen = Recipe(**{**values, "vocab_size": vocab_size})
    chosen.settings(*_any_size(given))
    return chosen, given


def _any_size(given):
    """The arguments of `Recipe.settings` where any size will do."""
    return (None if given.get("model") is not None or given.get("init") is not None else 0), given


def _are_stores(corpora):
    """Whether the corpora are token stores.

    Raises:
        ValueError: one does not exist, or only some are stores.
    """
    if not corpora:
        raise ValueError("a recipe needs at least one corpus; got none.")
    missing = next((corpus for corpus in corpora if not corpus.exists()), None)
    if missing is not None:
        raise ValueError(f"the corpus must be a text file, a folder of text files or a folder of tokens; {missing} does not exist.")
    found = [corpus.is_dir() and folder_kind(corpus) is STORE for corpus in corpora]
    if any(found) and not all(found):
        raise ValueError(
            f"corpora must be all text or all folders of tokens; {corpora[found.index(True)]} is a folder of tokens, and "
            f"{corpora[found.index(False)]} is not."
        )
    return all(found)


def _check_text_options(stores, **given):
    names = [name for name, value in given.items() if value is not None]
    if stores and names:
        raise ValueError(f"{names[0]} is for text; the corpora are folders of tokens, which have a vocabulary.")


def _vocabulary(folder, recipe, corpora, words_of, tell):
    """The vocabulary file of the training text, learned now or by an earlier start."""
    path = folder.vocabulary
    if path.is_file():
        return path
    share, seed, document_per_file = words_of
    words = WordCounts(recipe.cased)
    total = sum(CorpusReader(corpus, document_per_file).file_bytes for corpus in corpora)
    with tell.reading("counting words", total * (2 if share else 1)) as read:
        for corpus in corpora:
            count_training_words(corpus, words, share, seed, document_per_file, read)
    tokens = train_vocabulary(words.finish(), recipe.vocab_size)
    save_vocabulary(tokens, path)
    tell.vocabulary(len(tokens), words.counts.total())
    return path


def _tokens(corpus, path, vocabulary, cased, processes, document_per_file, tell):
    """The store of a corpus, tokenised now or by an earlier start."""
    with tell.reading("tokenising", CorpusReader(corpus, document_per_file).file_bytes) as read:
        done = prepare(corpus, vocabulary, path, cased=cased, workers=processes, document_per_file=document_per_file, progress=read)
    tell.prepared(done)
    return path


def _plan(folder, recipe, given, corpus):
    """The plan of the run, with the size chosen now or by an earlier start."""
    settings = recipe.settings(*_any_size(given))
    devices = choose_devices(settings.distribute, settings.model_devices).devices
    size, rate = folder.decided
    if rate is None:
        products = "bfloat16" if settings.dtype == "mixed_bfloat16" else "float32"
        rate = UTILISATION * matrix_ceiling(products) * devices
        size = choose_size(recipe, given, len(corpus.vocabulary), rate)
        folder.decide(size, rate)
    settings = recipe.settings(size, given)
    config = settings.model_config(len(corpus.vocabulary), 0) if settings.init is None else _config_of(settings.init)
    return plan_of(settings, config, corpus.num_tokens, rate, devices)


def _config_of(checkpoint):
    from keras_bert_rebuild.pretrained import from_pretrained

    return from_pretrained(checkpoint, heads=(), strict=False).config


def _score(folder, settings, corpus):
    """The score of the result on the held-out documents; an existing score is reused."""
    scored = _SCORED.get(settings.objective)
    if not settings.held_out or scored is None:
        return None
    known = folder.score()
    if known is not None:
        return known
    train, held_out = split_documents(corpus, settings.held_out, settings.seed)
    found = masked_score(folder.run / scored, held_out, train)
    folder.write_score(found)
    return found
