"""The tokenizer that belongs to a checkpoint."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.text.tokenizer_json import is_googles, is_robertas, model_type, reads_tokenizer_files
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

# Tokenizer class, its files, and the model type that the settings next to them must name (None: any).
KINDS = (
    (WordPieceTokenizer, ("vocab.txt",), None),
    (SentencePieceTokenizer, ("spiece.model",), "albert or xlnet"),
    (SentencePieceTokenizer, ("sentencepiece.bpe.model",), "xlmroberta"),
    (SentencePieceTokenizer, ("spm.model",), "debertav2"),
    (ByteLevelBPETokenizer, ("vocab.json", "merges.txt"), None),
)

# Model type in tokenizer.json to the tokenizer class, and a test whether it supports the rules in the file.
IN_JSON: dict[str, Any] = {
    "WordPiece": (WordPieceTokenizer, is_googles),
    "BPE": (ByteLevelBPETokenizer, is_robertas),
}

# Which file to use if a folder has files of several kinds.
PREFERRED = {"bert": "vocab.txt", "albert": "spiece.model", "roberta": "vocab.json", "xlmroberta": "sentencepiece.bpe.model"}
PREFERRED |= {"debertav2": "spm.model", "xlnet": "spiece.model"}

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


@reads_tokenizer_files
def load_tokenizer(path: str | os.PathLike[str], **options: Any) -> BatchTokenizer:
    """The tokenizer of a checkpoint, recognised by its files.

    Args:
        path: a folder with vocab.txt (BERT), vocab.json and merges.txt (RoBERTa), spiece.model (ALBERT, XLNet),
            sentencepiece.bpe.model (XLM-RoBERTa), spm.model (DeBERTa) or tokenizer.json (any of them, CamemBERT and others); or
            the path of such a file.
            tokenizer_config.json and config.json decide if the files are ambiguous.
        options: arguments of the tokenizer.

    Returns:
        A `WordPieceTokenizer`, a `ByteLevelBPETokenizer` or a `SentencePieceTokenizer` if it supports the files, else a
        `PipelineTokenizer` of the tokenizer.json.

    Raises:
        ValueError: there are no such files, they are damaged, or belong to another kind of tokenizer.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"expected a folder with the files of a tokenizer at {path}; it does not exist.")
    folder = path if path.is_dir() else path.parent
    names = _names(folder)
    _check_program(folder, names)
    found = [kind for kind in KINDS if all((folder / file).is_file() for file in kind[1])]
    if path != folder:
        found = [kind for kind in found if path.name in kind[1]]
    if len(found) > 1:
        found = [kind for kind in found if kind[1][0] in {PREFERRED.get(name) for name in names}]
        if len(found) != 1:
            raise ValueError(f"{path} must have the files of one tokenizer, or a config.json that selects one; it has several.")
    in_json = _of_json(folder)
    if found:
        tokenizer, files, needed = found[0]
        # A tokenizer.json of the same kind with other rules, or of a SentencePiece model of another family.
        if in_json is PipelineTokenizer and path == folder and (tokenizer in _kinds_in(folder) or not _fits(needed, names)):
            return PipelineTokenizer.from_pretrained(folder, **options)
        if not _fits(needed, names):
            raise ValueError(
                f"the {files[0]} at {path} must belong to a model of type {needed!r}; the settings next to it name {names}."
            )
        return tokenizer.from_pretrained(folder, **options)
    if path.is_file() and path.suffix == ".txt":
        return WordPieceTokenizer.from_pretrained(path, **options)
    if in_json is not None and path in (folder, folder / "tokenizer.json"):
        return in_json.from_pretrained(folder, **options)
    raise ValueError(
        "expected vocab.txt, vocab.json and merges.txt, spiece.model, sentencepiece.bpe.model, spm.model or tokenizer.json; "
        f"{path} has {'only an empty tokenizer.json' if (folder / 'tokenizer.json').is_file() else 'none'}."
    )


def _of_json(folder):
    """The class for the tokenizer.json of a folder; None if it is missing or empty."""
    path = folder / "tokenizer.json"
    values = json_object(path)
    if not values:
        return None
    tokenizer, has_its_rules = IN_JSON.get(model_type(values, path), (None, None))
    return tokenizer if tokenizer is not None and has_its_rules(values, path) else PipelineTokenizer


def _kinds_in(folder):
    """The default class for the model type of a tokenizer.json, in a tuple."""
    path = folder / "tokenizer.json"
    return IN_JSON.get(model_type(json_object(path), path), ())[:1]


def _fits(needed, names):
    return needed is None or not names or not set(needed.split(" or ")).isdisjoint(names)


def _check_program(folder, names):
    """Raise a ValueError for a tokenizer with its own code."""
    wrong = next((name for name in names if name.startswith(REFUSED)), None)
    settings = json_object(folder / "tokenizer_config.json")
    if wrong is None and settings.get("word_tokenizer_type") is not None:
        wrong = f"word_tokenizer_type {settings['word_tokenizer_type']}"
    if wrong is None and not (folder / "tokenizer.json").is_file():
        classes = [name for file, key in SETTINGS[:2] if (name := _name(folder, file, key))]
        wrong = next((name for name in classes if name not in CLASSES), None)
    if wrong is not None:
        raise ValueError(
            f"expected a tokenizer of BERT, RoBERTa, ALBERT, XLNet, XLM-RoBERTa or DeBERTa; the settings of {folder} name "
            f"{wrong!r}, which has its own word-splitting code."
        )


def _names(folder):
    """The names of the model in the settings, in a common spelling."""
    return [name for name in (_name(folder, file, key) for file, key in SETTINGS) if name]


def _name(folder, file, key):
    """A normalised name: `xlmroberta` for `XLMRobertaTokenizerFast` and `xlm-roberta`; empty for a generic class."""
    name = str(json_object(folder / file).get(key) or "").lower().replace("-", "").replace("_", "")
    name = name.removesuffix("fast").removesuffix("tokenizer")
    return "" if name in ("pretrained", "tokenizersbackend") else BORROWED.get(name, name)
