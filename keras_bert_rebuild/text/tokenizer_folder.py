"""The files of a tokenizer in the folder of a checkpoint: each is read once, and asked for settings, rows and tokens."""

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from tokenizers import AddedToken

from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.text.encoding import SIDES
from keras_bert_rebuild.text.tokenizer_json import (
    SPECIAL_NAMES,
    added_token,
    check_ids,
    cut_side,
    model_type,
    objects,
    section,
    token_id,
)
from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_SEP, TOKEN_UNK

# A written `[MASK]` is text unless `special_tokens_in_text` is set.
SPECIAL = (GOOGLE_PAD, TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)

# Files that name special tokens, and lists of additional ones in those of transformers 4 and 5.
SPECIAL_FILES = ("special_tokens_map.json", "tokenizer_config.json")
MORE_SPECIAL = ("additional_special_tokens", "extra_special_tokens")

# Settings in tokenizer_config.json to their names in normalizers of tokenizer.json.
IN_NORMALIZER = {"do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "handle_chinese_chars"}

# Classes that only read tokenizer.json.
GENERIC_CLASSES = ("pretrainedtokenizerfast", "tokenizersbackend")


class TokenizerFolder(os.PathLike[str]):
    """The folder of a checkpoint, as a path whose files are read once.

    Args:
        path: the folder, or the path of a file in it.

    Its methods raise a ValueError for a file that is damaged or has something else than expected.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.folder = self.path.parent if self.path.is_file() else self.path
        self._read: dict[str, dict[str, Any]] = {}

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """The folder at a path, or the given one."""
        return path if isinstance(path, cls) else cls(path)

    def __fspath__(self):
        return str(self.path)

    __str__ = __fspath__

    def json(self, name):
        """The dictionary in a file of the folder, which is not to be changed; empty if there is no such file."""
        if name not in self._read:
            self._read[name] = json_object(self.folder / name)
        return self._read[name]

    def has(self, *names):
        """Whether the folder has all of these files."""
        return all((self.folder / name).is_file() for name in names)

    @property
    def settings(self):
        """The content of tokenizer_config.json."""
        return self.json("tokenizer_config.json")

    @property
    def pipeline(self):
        """The content of tokenizer.json."""
        return self.json("tokenizer.json")

    @property
    def pipeline_path(self):
        """The path of tokenizer.json."""
        return self.folder / "tokenizer.json"

    @property
    def model_type(self):
        """The type of the model in tokenizer.json; None without one."""
        return model_type(self.pipeline, self.pipeline_path) if self.pipeline else None

    @property
    def is_generic(self):
        """Whether the settings name a class that only reads tokenizer.json."""
        return str(self.settings.get("tokenizer_class")).lower() in GENERIC_CLASSES

    def cleaning_settings(self, normalizer):
        """The settings of `IN_NORMALIZER` in the files.

        tokenizer_config.json takes precedence over the normalizer of tokenizer.json, as in transformers, unless it names a class
        that only reads tokenizer.json.

        Args:
            normalizer: the normalizer of tokenizer.json, or an empty dictionary.

        Raises:
            ValueError: a setting is neither true nor false.
        """
        settings = {} if normalizer and self.is_generic else self.settings
        default = normalizer if normalizer.get("type") == "BertNormalizer" else {}
        values = {setting: settings.get(setting, default.get(name)) for setting, name in IN_NORMALIZER.items()}
        wrong = next((item for item in values.items() if item[1] not in (None, True, False)), None)
        if wrong is not None:
            raise ValueError(f"{wrong[0]} at {self.folder} must be true or false; got {wrong[1]!r:.40}.")
        for setting in ("never_split", "do_basic_tokenize"):
            if settings.get(setting) not in (None, True, []):
                path, value = self.folder / "tokenizer_config.json", settings[setting]
                warnings.warn(f"{setting} in {path} is ignored, as transformers 5 does: {value!r:.60}.", stacklevel=4)
        return {setting: value for setting, value in values.items() if value is not None}

    def row_settings(self, pipeline=None):
        """What the files say of rows, as arguments of a tokenizer, as transformers reads it.

        `padding_side` is not among it: rows are padded where it changes no result. `model_max_length` is a setting of a model.

        Args:
            pipeline: the content of the tokenizer.json that belongs to the tokenizer; None for that of the folder.

        Returns:
            A dictionary with `second_segment`, 0 if `model_input_names` has no `token_type_ids` or the model has a single segment,
            else None; and `truncation_side`.

        Raises:
            ValueError: a setting is none of these.
        """
        names, side = (self.settings.get(name) for name in ("model_input_names", "truncation_side"))
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            path = self.folder / "tokenizer_config.json"
            raise ValueError(f"model_input_names in {path} must be a list of names; got {names!r:.60}.")
        is_one = self.json("config.json").get("type_vocab_size") == 1
        if side is None:
            side = cut_side(self.pipeline if pipeline is None else pipeline, self.pipeline_path)
        if side not in SIDES:
            raise ValueError(f"truncation_side at {self.folder} must be {' or '.join(SIDES)}; got {side!r:.40}.")
        has_segments = names is None or "token_type_ids" in names
        return {"second_segment": None if has_segments and not is_one else 0, "truncation_side": side}

    def special_tokens(self):
        """The special tokens in the settings, by `SPECIAL_NAMES`."""
        tokens = {}
        for file in SPECIAL_FILES:
            for name in SPECIAL_NAMES:
                token = self.json(file).get(f"{name}_token")
                token = token.get("content") if isinstance(token, dict) else token
                if token is not None and not isinstance(token, str):
                    got = f"{type(token).__name__} {token!r:.40}"
                    raise ValueError(f"{name}_token in {self.folder / file} must be a string; got {got}.")
                if token:
                    tokens[name] = token
        return tokens

    def mask_takes_space(self, mask):
        """Whether white space before a written mask, this token, belongs to it, as for RoBERTa; None if the files do not say."""
        for file in reversed(SPECIAL_FILES):
            token = self.json(file).get("mask_token")
            if isinstance(token, dict) and isinstance(token.get("lstrip"), bool):
                return token["lstrip"]
        listed = (*self._of_settings(), *self._of_pipeline(None))
        return next((token.lstrip for token, _ in listed if token.content == mask), None)

    def with_added_tokens(self, vocabulary, kind="WordPiece", special=SPECIAL):
        """A vocabulary with the tokens added by the files: tokenizer.json, those of the settings, and added_tokens.json.

        Args:
            vocabulary: a dictionary from token to id.
            kind: model type of the tokenizer.json; a file of another type belongs to another vocabulary.
            special: tokens that do not count as added, although the files list them.

        Returns:
            The vocabulary, and the `tokenizers.AddedToken`s in the order of their ids.

        Raises:
            ValueError: a token or an id occurs twice, or one of the files is damaged.
        """
        listed = {}
        for token, i in (*self._of_settings(), *self._of_pipeline(kind), *self._of_added_tokens_json()):
            if token.content not in special:
                listed.setdefault((token.content, i), token)
        added, vocabulary = {}, dict(vocabulary)
        tokens = {i: token for token, i in vocabulary.items()}
        for (content, i), token in listed.items():
            earlier = vocabulary.setdefault(content, i)
            if earlier != i or tokens.setdefault(i, content) != content:
                clash = f"{content!r} has {i} and {earlier}" if earlier != i else f"{content!r} has {i}, and so has {tokens[i]!r}"
                raise ValueError(f"the files at {self.folder} must give every added token an id of its own; {clash}.")
            added[content] = token
        following = max(tokens, default=-1) + 1
        for content in self._more_special():
            if content not in added and content not in special:
                following += vocabulary.setdefault(content, following) == following
                added[content] = AddedToken(content, special=True)
        check_ids(vocabulary, self.folder)
        return vocabulary, tuple(sorted(added.values(), key=lambda token: vocabulary[token.content]))

    def check_added(self):
        """Refuse more added tokens than the limits allow."""
        where = f"the files of a tokenizer at {printable(self)}"
        lists = [list(self.json("added_tokens.json"))]
        for tokens in (self.settings.get("added_tokens_decoder"), self.pipeline.get("added_tokens")):
            tokens = list(tokens.values()) if isinstance(tokens, dict) else tokens if isinstance(tokens, list) else []
            lists.append([token.get("content") for token in tokens if isinstance(token, dict)])
        for contents in lists:
            check_limit("added_tokens", len(contents), where)
            check_limit("added_token_characters", sum(len(content) for content in contents if isinstance(content, str)), where)

    def check_special(self, tokenizer):
        """Refuse settings that name other special tokens than those of a tokenizer; a pipeline takes them from the settings."""
        for name, token in self.special_tokens().items() if not hasattr(tokenizer, "pipeline") else ():
            own = getattr(tokenizer, f"{name}_id")
            if own is not None and token != (tokenizer.tokens[own] or "[PAD]"):
                raise ValueError(
                    f"{name}_token at {printable(self)} must be {tokenizer.tokens[own]!r}, as in every {type(tokenizer).__name__}; "
                    f"got {token!r:.40}."
                )

    def _of_pipeline(self, kind):
        path = self.pipeline_path
        if kind is not None and self.model_type != kind:
            return []
        return [(added_token(each, path), token_id(each.get("id"), path)) for each in objects(self.pipeline, "added_tokens", path)]

    def _of_settings(self):
        path = self.folder / "tokenizer_config.json"
        listed = section(self.settings, "added_tokens_decoder", path)
        return [(added_token(section(listed, i, path), path), token_id(i, path)) for i in listed]

    def _of_added_tokens_json(self):
        path, more = self.folder / "added_tokens.json", self._more_special()
        listed = self.json("added_tokens.json").items()
        return [(added_token({"content": token, "special": token in more}, path), token_id(i, path)) for token, i in listed]

    def _more_special(self):
        """Special tokens in the settings, besides those that every tokenizer has."""
        tokens = []
        for file in SPECIAL_FILES:
            for name in MORE_SPECIAL:
                value = self.json(file).get(name)
                listed = list(value.values()) if isinstance(value, dict) else value or []
                contents = listed if isinstance(listed, list) else [None]
                contents = [token.get("content") if isinstance(token, dict) else token for token in contents]
                if not all(isinstance(content, str) and content for content in contents):
                    raise ValueError(f"{name} in {self.folder / file} must be a list of tokens; got {value!r:.80}.")
                tokens += contents
        return list(dict.fromkeys(tokens))


_Reader = TypeVar("_Reader", bound=Callable[..., Any])

# What values of wrong types raise; the first two are also what `tokenizers` raises for invalid arguments.
_MALFORMED = (TypeError, OverflowError, AttributeError, LookupError)


def reads_tokenizer_files(read: _Reader) -> _Reader:
    """Decorator for a function that reads a tokenizer, with the path as last positional argument; errors name the path.

    The function gets a `TokenizerFolder` as path, so that what it calls does not read the files again.

    Raises:
        ValueError: a file is malformed, or adds more tokens than the limit.
    """

    @functools.wraps(read)
    def bounded(*args, **options):
        *before, path = (*args, options.pop("path")) if "path" in options else args
        folder = TokenizerFolder.of(path)
        folder.check_added()
        try:
            tokenizer = read(*before, folder, **options)
        except _MALFORMED as error:
            if isinstance(error, TypeError) and "unexpected keyword argument" in str(error) and options:
                raise  # an argument that the tokenizer does not have
            reason = printable(" ".join(str(error).split()))
            raise ValueError(f"the files of a tokenizer at {printable(folder)} are malformed: {reason}.") from error
        check_limit("added_tokens", len(getattr(tokenizer, "added_tokens", ())), f"the tokenizer at {printable(folder)}")
        folder.check_special(tokenizer)
        return tokenizer

    return cast(_Reader, bounded)
