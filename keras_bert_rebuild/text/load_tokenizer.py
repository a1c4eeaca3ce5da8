"""The tokenizer that belongs to a checkpoint."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.json_file import json_object
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.text.tokenizer_damage import reads_tokenizer_files
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

# Tokenizer, the files that it is made of, and what settings beside these must name (None: anything).
KINDS = (
    (WordPieceTokenizer, ("vocab.txt",), None),
    (SentencePieceTokenizer, ("spiece.model",), "albert"),
    (SentencePieceTokenizer, ("sentencepiece.bpe.model",), "xlmroberta"),
    (ByteLevelBPETokenizer, ("vocab.json", "merges.txt"), None),
)

# By the type of model in tokenizer.json.
IN_JSON: dict[str, Any] = {
    "WordPiece": WordPieceTokenizer,
    "BPE": ByteLevelBPETokenizer,
}

# Where files of several kinds lie in a folder.
PREFERRED = {"bert": "vocab.txt", "albert": "spiece.model", "roberta": "vocab.json", "xlmroberta": "sentencepiece.bpe.model"}

# These have the files of another kind and cut words with a program of their own.
REFUSED = ("bertjapanese", "bertweet", "phobert", "herbert")

# Where the settings of a checkpoint name its model.
SETTINGS = (("tokenizer_config.json", "tokenizer_class"), ("tokenizer_config.json", "model_type"), ("config.json", "model_type"))


@reads_tokenizer_files
def load_tokenizer(path: str | os.PathLike[str], **options: Any) -> BatchTokenizer:
    """The tokenizer of a checkpoint, told from its files.

    Args:
        path: a folder with vocab.txt (BERT), vocab.json and merges.txt (RoBERTa), spiece.model (ALBERT), sentencepiece.bpe.model
            (XLM-RoBERTa) or tokenizer.json (BERT, RoBERTa); or the path of such a file. tokenizer_config.json and config.json
            decide where the files leave it open.
        options: those of the tokenizer.

    Returns:
        A `WordPieceTokenizer`, a `ByteLevelBPETokenizer` or a `SentencePieceTokenizer`.

    Raises:
        ValueError: there is no such file, it is damaged, or it belongs to a tokenizer of another kind.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"a folder with the files of a tokenizer must be at {path}; there is none.")
    folder = path if path.is_dir() else path.parent
    names = _names(folder)
    wrong = next((name for name in names if name.startswith(REFUSED)), None)
    if wrong is not None:
        raise ValueError(f"a tokenizer of BERT, RoBERTa, ALBERT or XLM-RoBERTa must be at {path}; its settings say {wrong!r}.")
    found = [kind for kind in KINDS if all((folder / file).is_file() for file in kind[1])]
    if path != folder:
        found = [kind for kind in found if path.name in kind[1]]
    if len(found) > 1:
        found = [kind for kind in found if kind[1][0] in {PREFERRED.get(name) for name in names}]
        if len(found) != 1:
            raise ValueError(f"the files of one tokenizer must be at {path}, or a config.json that says which; there are several.")
    if found:
        tokenizer, files, needed = found[0]
        if needed is not None and names and needed not in names:
            raise ValueError(f"the {files[0]} at {path} must be of a model of type {needed!r}; the settings beside it say {names}.")
        return tokenizer.from_pretrained(folder, **options)
    if path.is_file() and path.suffix == ".txt":
        return WordPieceTokenizer.from_pretrained(path, **options)
    if (folder / "tokenizer.json").is_file() and path in (folder, folder / "tokenizer.json"):
        kind = (json_object(folder / "tokenizer.json").get("model") or {}).get("type")
        if kind in IN_JSON:
            return IN_JSON[kind].from_pretrained(folder, **options)
        raise ValueError(f"spiece.model or sentencepiece.bpe.model must be at {path}, too; tokenizer.json holds a {kind} model.")
    raise ValueError(
        f"vocab.txt, vocab.json and merges.txt, spiece.model, sentencepiece.bpe.model or tokenizer.json must be at {path}; none is."
    )


def _names(folder):
    """What the settings call the model, in one spelling: `xlmroberta` for `XLMRobertaTokenizerFast` and `xlm-roberta`."""
    names = []
    for file, key in SETTINGS:
        name = str(json_object(folder / file).get(key) or "").lower().replace("-", "").replace("_", "")
        name = name.removesuffix("fast").removesuffix("tokenizer")
        # The name of a file format, and of no model.
        if name not in ("", "pretrained", "tokenizersbackend"):
            names.append(name)
    return names
