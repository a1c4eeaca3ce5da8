"""The files of a tokenizer that lie beside a model's weights."""

import json
import os
import warnings
from pathlib import Path

from keras_bert_rebuild.files.kinds import TOKENIZER_NAMES
from keras_bert_rebuild.text.added_tokens import added_tokens_decoder
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

# What tokenizers of the family are made of.
NAMES = TOKENIZER_NAMES


def read_tokenizer_files(folder):
    """The tokenizer files of a folder: name to bytes.

    They are copied into what is saved and exported, so a link is followed only to a file in the same folder, to one of the same
    name, or within a cache of Hugging Face (`models--...`, whose snapshots are links): a folder from elsewhere whose vocab.txt is a
    link to a private file of yours would have it published. Other links are left out, with a warning.
    """
    found = {}
    for path in (Path(folder) / name for name in NAMES):
        if not path.is_file():
            continue
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not _may_follow(path, target):
            warnings.warn(f"{path} is a link to {target}, outside of its folder, and is not read: put a copy there.", stacklevel=2)
            continue
        found[path.name] = path.read_bytes()
    return found


def _may_follow(path, target):
    folder = Path(os.path.realpath(path.parent))
    caches = [above for above in (folder, *folder.parents) if above.name.startswith("models--")]
    return target.name == path.name or any(target.is_relative_to(place) for place in (folder, *caches[:1]))


def vocabulary_files(vocabulary, max_length):
    """The files of a WordPiece tokenizer.

    Args:
        vocabulary: a dictionary from token to id, a list of tokens, the path of a vocab.txt, or a `WordPieceTokenizer`.
        max_length: the longest sequence of the model, in tokens.

    Returns:
        Name to bytes; whether texts are to be lower-cased is told by the tokenizer or by the vocabulary, which then has no
        upper-case letter.
    """
    tokenizer = vocabulary if isinstance(vocabulary, WordPieceTokenizer) else None
    vocabulary = vocabulary if tokenizer is None else tokenizer.vocabulary
    if isinstance(vocabulary, (str, Path)):
        vocabulary = load_vocabulary(vocabulary)
    if isinstance(vocabulary, dict):
        token_of = {i: token for token, i in vocabulary.items()}
        # Ids that no token has, after a repeated line, keep a line of their own, so that none behind them shifts.
        vocabulary = [token_of.get(i, f"[gap {i}]") for i in range(max(token_of, default=-1) + 1)]
    tokens = list(vocabulary)
    if "[PAD]" not in tokens:  # keras_bert's own vocabularies pad with the empty word, which nobody else knows
        tokens = [token or "[PAD]" for token in tokens]
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": not (is_cased(tokens) if tokenizer is None else tokenizer.cased),
        "model_max_length": max_length,
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
    }
    if tokenizer is not None and tokenizer.added_tokens:
        settings["added_tokens_decoder"] = added_tokens_decoder(tokenizer)
    return {
        "vocab.txt": "".join(f"{token}\n" for token in tokens).encode(),
        "tokenizer_config.json": (json.dumps(settings, indent=2) + "\n").encode(),
    }


def with_vocabulary(files, max_length):
    """Tokenizer files with a vocab.txt, taken from a WordPiece tokenizer.json where there is none."""
    if "vocab.txt" in files or "tokenizer.json" not in files:
        return files
    model = json.loads(files["tokenizer.json"]).get("model", {})
    if model.get("type") != "WordPiece":
        return files
    return {**vocabulary_files(model["vocab"], max_length), **files}
