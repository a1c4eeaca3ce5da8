"""The tokenizer that belongs to a checkpoint, recognised by its files: one table of the kinds of tokenizers."""

import os
from typing import Any, NamedTuple

from keras_bert_rebuild.files.hub import located
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.text.tokenizer_folder import TokenizerFolder, reads_tokenizer_files
from keras_bert_rebuild.text.tokenizer_json import is_googles, is_robertas
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


class Kind(NamedTuple):
    """A kind of tokenizer, and the files that it has."""

    tokenizer: Any
    """Its class."""

    files: tuple[str, ...]
    """Its own files."""

    models: tuple[str, ...]
    """The model types that have it: it is chosen for them if a folder has files of several kinds."""

    only: bool = False
    """Whether settings next to the files must name one of these models, if they name any."""

    in_json: str | None = None
    """The type of its model in a tokenizer.json, which may be there instead of its files; None if its class reads none."""

    has_its_rules: Any = None
    """Whether its class supports the rules in a tokenizer.json."""


KINDS = (
    Kind(WordPieceTokenizer, ("vocab.txt",), ("bert",), in_json="WordPiece", has_its_rules=is_googles),
    Kind(SentencePieceTokenizer, ("spiece.model",), ("albert", "xlnet"), only=True),
    Kind(SentencePieceTokenizer, ("sentencepiece.bpe.model",), ("xlmroberta",), only=True),
    Kind(SentencePieceTokenizer, ("spm.model",), ("debertav2",), only=True),
    Kind(ByteLevelBPETokenizer, ("vocab.json", "merges.txt"), ("roberta",), in_json="BPE", has_its_rules=is_robertas),
)

# Models that use the tokenizer of another model if their settings name no class.
BORROWED = {"gte": "xlmroberta", "nomicbert": "bert"}

# Tokenizers with their own word-splitting code, whatever their files.
REFUSED = ("bertjapanese", "bertweet", "phobert", "herbert")

# Classes of transformers whose files are those of `KINDS` if there is no tokenizer.json.
CLASSES = (
    "albert", "bart", "basic", "bert", "camembert", "convbert", "data2vectext", "debertav2", "distilbert", "dprcontextencoder",
    "dprquestionencoder", "dprreader", "electra", "funnel", "ibert", "layoutlm", "layoutlmv2", "longformer", "lxmert", "mobilebert",
    "mpnet", "realm", "retribert", "roberta", "roformer", "splinter", "squeezebert", "xlmroberta",
    "xlnet",
)  # fmt: skip

# Files and keys that name the model of a checkpoint.
SETTINGS = (
    ("tokenizer_config.json", "tokenizer_class"),
    ("config.json", "tokenizer_class"),
    ("tokenizer_config.json", "model_type"),
    ("config.json", "model_type"),
)


def load_tokenizer(path: str | os.PathLike[str], *, revision: str | None = None, **options: Any) -> BatchTokenizer:
    """The tokenizer of a checkpoint, recognised by its files.

    Args:
        path: a folder with vocab.txt (BERT), vocab.json and merges.txt (RoBERTa), spiece.model (ALBERT, XLNet),
            sentencepiece.bpe.model (XLM-RoBERTa), spm.model (DeBERTa) or tokenizer.json (any of them, CamemBERT and others); or
            the path of such a file.
            tokenizer_config.json and config.json decide if the files are ambiguous. Or the name of a model on the Hugging Face hub,
            of which only these files are downloaded.
        revision: of a name, the branch, tag or commit; None for the main branch.
        options: arguments of the tokenizer.

    Returns:
        A `WordPieceTokenizer`, a `ByteLevelBPETokenizer` or a `SentencePieceTokenizer` if it supports the files, else a
        `PipelineTokenizer` of the tokenizer.json.

    Raises:
        ValueError: there are no such files, they are damaged, or belong to another kind of tokenizer.
    """
    return _read(path if isinstance(path, TokenizerFolder) else located(path, revision, weights=False), **options)


@reads_tokenizer_files
def _read(files, **options):
    """The tokenizer in a `TokenizerFolder`."""
    file = files.path.name if files.path.is_file() else None
    if not files.path.exists():
        raise ValueError(f"expected a folder with the files of a tokenizer at {files}; it does not exist.")
    folder = files if file is None else TokenizerFolder(files.folder)
    names = [name for name in (_name(folder, *setting) for setting in SETTINGS) if name]
    _check_program(folder, names)
    kinds = [kind for kind in KINDS if folder.has(*kind.files) and (file is None or file in kind.files)]
    if len(kinds) > 1:
        kinds = [kind for kind in kinds if not set(kind.models).isdisjoint(names)]
        if len(kinds) != 1:
            raise ValueError(f"{files} must have the files of one tokenizer, or a config.json that selects one; it has several.")
    in_json = next((kind for kind in KINDS if kind.in_json and kind.in_json == folder.model_type), None)
    supported = in_json is not None and in_json.has_its_rules(folder.pipeline, folder.pipeline_path)
    if kinds:
        (kind,) = kinds
        fits = not kind.only or not names or not set(kind.models).isdisjoint(names)
        # A tokenizer.json of the same kind with other rules, or of a SentencePiece model of another family.
        is_other = (in_json is not None and in_json.tokenizer is kind.tokenizer) or not fits
        if folder.pipeline and not supported and file is None and is_other:
            return PipelineTokenizer.from_pretrained(folder, **options)
        if not fits:
            needed = " or ".join(kind.models)
            raise ValueError(
                f"the {kind.files[0]} at {files} must belong to a model of type {needed!r}; the settings next to it name {names}."
            )
        return kind.tokenizer.from_pretrained(folder, **options)
    if file is not None and files.path.suffix == ".txt":
        return WordPieceTokenizer.from_pretrained(files, **options)
    if folder.pipeline and file in (None, "tokenizer.json"):
        tokenizer = in_json.tokenizer if in_json is not None and supported else PipelineTokenizer
        return tokenizer.from_pretrained(folder, **options)
    raise ValueError(
        "expected vocab.txt, vocab.json and merges.txt, spiece.model, sentencepiece.bpe.model, spm.model or tokenizer.json; "
        f"{files} has {'only an empty tokenizer.json' if folder.has('tokenizer.json') else 'none'}."
    )


def _check_program(folder, names):
    """Raise a ValueError for a tokenizer with its own code."""
    wrong = next((name for name in names if name.startswith(REFUSED)), None)
    if wrong is None and folder.settings.get("word_tokenizer_type") is not None:
        wrong = f"word_tokenizer_type {folder.settings['word_tokenizer_type']}"
    if wrong is None and not folder.has("tokenizer.json"):
        classes = [name for setting in SETTINGS[:2] if (name := _name(folder, *setting))]
        wrong = next((name for name in classes if name not in CLASSES), None)
    if wrong is not None:
        raise ValueError(
            f"expected a tokenizer of BERT, RoBERTa, ALBERT, XLNet, XLM-RoBERTa or DeBERTa; the settings of {folder} name "
            f"{wrong!r}, which has its own word-splitting code."
        )


def _name(folder, file, key):
    """The name of the model in a setting, normalised: `xlmroberta` for `XLMRobertaTokenizerFast` and `xlm-roberta`.

    Empty for a generic class.
    """
    name = str(folder.json(file).get(key) or "").lower().replace("-", "").replace("_", "")
    name = name.removesuffix("fast").removesuffix("tokenizer")
    return "" if name in ("pretrained", "tokenizersbackend") else BORROWED.get(name, name)
