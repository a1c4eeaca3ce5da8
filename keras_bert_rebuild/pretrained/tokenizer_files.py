"""The files of a tokenizer that lie beside a model's weights."""

import json
from pathlib import Path

from keras_bert_rebuild.files.json_text import parse_json
from keras_bert_rebuild.text.added_tokens import added_tokens_decoder
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

# What tokenizers of the family are made of.
NAMES = (
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)


def read_tokenizer_files(folder):
    """The tokenizer files of a folder: name to bytes."""
    return {name: (Path(folder) / name).read_bytes() for name in NAMES if (Path(folder) / name).is_file()}


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
    whole = parse_json(files["tokenizer.json"].decode("utf-8", "replace"), "tokenizer.json")
    model = whole.get("model") if isinstance(whole, dict) else None
    if not isinstance(model, dict) or model.get("type") != "WordPiece" or not isinstance(model.get("vocab"), dict):
        return files
    return {**vocabulary_files(model["vocab"], max_length), **files}
