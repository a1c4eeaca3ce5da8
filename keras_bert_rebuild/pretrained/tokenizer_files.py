"""The tokenizer files next to a model's weights."""

import json
import os
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from keras_bert_rebuild.files.kinds import TOKENIZER_NAMES
from keras_bert_rebuild.files.reading import json_bytes, parse_json
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_text import FAMILIES
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.text.tokenizer_json import flags_of, is_googles
from keras_bert_rebuild.text.vocabulary import is_cased, load_vocabulary
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def read_tokenizer_files(folder):
    """The tokenizer files of a folder, name to bytes.

    Since saving or exporting a model copies them, a link is only followed to a file in the same folder, to one of the same name, or
    within a Hugging Face cache (`models--...`, whose snapshots are links): otherwise a downloaded folder with a vocab.txt that
    links to a private file of yours could make you publish it. Other links are skipped, with a warning.
    """
    found = {}
    for path in (Path(folder) / name for name in TOKENIZER_NAMES):
        if not path.is_file():
            continue
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not may_follow(path, target):
            warnings.warn(f"{path} is a link to {target}, outside its folder, and is skipped: put a copy there.", stacklevel=2)
            continue
        found[path.name] = path.read_bytes()
    return found


def may_follow(path, target):
    """Whether a file may be published: its target is in its folder, has its name, or is in the same model of the hub's cache."""
    folder = Path(os.path.realpath(path.parent))
    caches = [above for above in (folder, *folder.parents) if above.name.startswith("models--")]
    return target.name == path.name or any(target.is_relative_to(root) for root in (folder, *caches[:1]))


def vocabulary_files(vocabulary, max_length):
    """Tokenizer files from which `load_tokenizer` and transformers load the given tokenizer.

    Args:
        vocabulary: a `BatchTokenizer`; or, for a WordPiece tokenizer, a dictionary from token to id, a list of tokens or the path
            of a vocab.txt, which is taken to be lower-cased if it has no upper-case letter.
        max_length: maximum sequence length of the model, in tokens.

    Returns:
        Name to bytes; empty for a tokenizer class of your own.
    """
    if not isinstance(vocabulary, BatchTokenizer):
        return _files_of_vocabulary(vocabulary, max_length)
    write = next((write for kind, write in _WRITERS.items() if isinstance(vocabulary, kind)), None)
    if write is None:
        return {}
    files, settings = write(vocabulary)
    special = {"unk": vocabulary.unk_id, "sep": vocabulary.sep_id, "pad": vocabulary.pad_id, "cls": vocabulary.cls_id}
    special["mask"] = vocabulary.mask_id
    settings = {
        **settings,
        "model_max_length": max_length,
        # keras_bert's own vocabularies pad with the empty string, unlike any other library.
        **{f"{name}_token": vocabulary.tokens[i] or "[PAD]" for name, i in special.items() if i is not None},
    }
    if not vocabulary.second_segment:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    if vocabulary.truncation_side != "right":
        settings["truncation_side"] = vocabulary.truncation_side
    return {**files, "tokenizer_config.json": json_bytes(settings)}


def _files_of_vocabulary(vocabulary, max_length):
    if isinstance(vocabulary, (str, Path)):
        vocabulary = load_vocabulary(vocabulary)
    if not isinstance(vocabulary, dict):
        vocabulary = {token: i for i, token in enumerate(vocabulary)}
    tokens = _tokens(vocabulary)
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": not is_cased(vocabulary),
        "model_max_length": max_length,
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
    }
    return {"vocab.txt": _lines(tokens), "tokenizer_config.json": json_bytes(settings)}


def _tokens(vocabulary):
    """The tokens in the order of their ids."""
    token_of = {i: token for token, i in vocabulary.items()}
    # Ids without a token, after a repeated line, keep a line of their own, so that later ids do not shift.
    tokens = [token_of.get(i, f"[gap {i}]") for i in range(max(token_of, default=-1) + 1)]
    return tokens if "[PAD]" in tokens else [token or "[PAD]" for token in tokens]


def _wordpiece(tokenizer):
    settings = {"tokenizer_class": "BertTokenizer", **asdict(tokenizer.settings)}
    if tokenizer.added_tokens or tokenizer.takes_space:
        settings["added_tokens_decoder"] = _added_tokens(tokenizer)
    pieces = tokenizer.pieces
    following = range(max(pieces.values()) + 1, max(tokenizer.tokens) + 1)
    # Added tokens must have the ids that transformers assigns, or be in the file.
    whole = any(i not in tokenizer.tokens for i in following)
    return {"vocab.txt": _lines(_tokens(tokenizer.vocabulary if whole else pieces))}, settings


def _byte_level_bpe(tokenizer):
    files = {
        "vocab.json": json.dumps(tokenizer.vocabulary, ensure_ascii=False).encode(),
        "merges.txt": _lines(["#version: 0.2", *(" ".join(pair) for pair in tokenizer.merges)]),
    }
    settings = {
        "tokenizer_class": "RobertaTokenizer",
        "add_prefix_space": tokenizer.add_prefix_space,
        "added_tokens_decoder": _added_tokens(tokenizer),
    }
    return files, settings


def _sentencepiece(tokenizer):
    settings = {"added_tokens_decoder": _added_tokens(tokenizer)}
    if tokenizer.family in ("albert", "xlnet"):
        settings |= {"do_lower_case": tokenizer.lower, "keep_accents": not tokenizer.strip_accents}
    family = FAMILIES[tokenizer.family]
    return {family.file: tokenizer.model_file}, {**settings, "tokenizer_class": family.transformers}


def _pipeline(tokenizer):
    pipeline = json.dumps(tokenizer.pipeline, ensure_ascii=False).encode()
    side = {"padding_side": "left"} if tokenizer.cls_last else {}
    return {"tokenizer.json": pipeline}, {"tokenizer_class": "PreTrainedTokenizerFast", **side}


def _added_tokens(tokenizer):
    """The `added_tokens_decoder` of a tokenizer_config.json, for transformers."""
    rules = [tokenizer.rules[content] for content in tokenizer.added_tokens]
    if tokenizer.mask_id is not None:
        mask = tokenizer.tokens[tokenizer.mask_id]
        rules.append(AddedToken(mask, lstrip=mask in tokenizer.takes_space, special=True, normalized=False))
    return {str(tokenizer.vocabulary[rule.content]): flags_of(rule) for rule in rules}


_WRITERS: dict[type, Any] = {
    WordPieceTokenizer: _wordpiece,
    ByteLevelBPETokenizer: _byte_level_bpe,
    SentencePieceTokenizer: _sentencepiece,
    PipelineTokenizer: _pipeline,
}


def with_vocabulary(files, max_length):
    """Tokenizer files with a vocab.txt; if there is none, it is made from a tokenizer.json with Google's rules."""
    if "vocab.txt" in files or "tokenizer.json" not in files:
        return files
    path = Path("tokenizer.json")
    values = parse_json(files[path.name].decode("utf-8", "replace"), path)
    if not isinstance(values, dict) or not is_googles(values, path):
        return files
    return {**vocabulary_files(tokenizer_of_files(files), max_length), **files}


def tokenizer_of_files(files, config=None, where=""):
    """The tokenizer of the given files.

    Args:
        files: name to bytes.
        config: the dictionary in their config.json, whose `model_type` decides between files of several kinds.
        where: the folder that they are from, for errors.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        if config is not None:
            (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            return load_tokenizer(folder)
        except ValueError as error:
            raise ValueError(str(error).replace(folder, str(where) or "the model's folder")) from None


def _lines(tokens):
    return "".join(f"{token}\n" for token in tokens).encode()
