"""What the embedders have in common: the checks of poolings and prompts, and the description of a model for an index."""

import abc
import difflib
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.tasks.embedding_model import POOLINGS
from keras_bert_rebuild.tasks.sentence_modules import modules_of, shown
from keras_bert_rebuild.tasks.task import Task

# The similarity of vectors: their cosine or their product.
MEASURES = ("cosine", "dot")

# Every embedder has prompts for queries and documents, which are empty by default.
ALWAYS = ("query", "document")


# A name, in contrast to a prompt such as "query: ".
_NAME = re.compile(r"[\w.-]+")


def prompt_text(prompts: Mapping[str, str], prompt: str | None) -> str:
    """The prompt with a name, empty for "query" and "document" without one; a text that is not one word is the prompt itself.

    Raises:
        ValueError: no prompt has the name; the error lists the known ones.
    """
    if prompt is None or prompt in prompts:
        return "" if prompt is None else prompts[prompt]
    if prompt in ALWAYS or not _NAME.fullmatch(prompt):
        return "" if prompt in ALWAYS else prompt
    known = tuple(dict.fromkeys((*ALWAYS, *prompts)))
    near = difflib.get_close_matches(prompt, known, n=1)
    hint = f"; did you mean {near[0]}" if near else ""
    raise ValueError(f"prompt must be one of {', '.join(known)}, or a text of more than a word; got {prompt!r:.80}{hint}.")


def checked_poolings(poolings: Any) -> tuple[str, ...]:
    """Names of poolings as a tuple, from a list or a single string; a ValueError if one is unknown or repeated, or for none."""
    names: Sequence[str] = (poolings,) if isinstance(poolings, str) else tuple(poolings)
    if not names or not set(names) <= set(POOLINGS) or len(set(names)) < len(names):
        raise ValueError(f"poolings must be some of {', '.join(POOLINGS)}, each once; got {', '.join(map(str, names)) or 'none'}.")
    return tuple(names)


def checked_prompts(prompts: Any, default: Any) -> dict[str, str]:
    """Prompts by name, checked; a ValueError if the default prompt is not among them."""
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, Mapping) or not all(isinstance(part, str) for item in prompts.items() for part in item):
        raise ValueError(f"prompts must be texts by name; got {prompts!r:.80}.")
    if default is not None and default not in prompts and default not in ALWAYS:
        known = ", ".join(prompts) or "none"
        raise ValueError(f"default_prompt must be the name of a prompt; got {default!r:.80}, and the prompts are {known}.")
    return dict(prompts)


def weights_digest(model: keras.Model) -> str:
    """The sha256 of a model's weights with their paths and shapes, in the order of paths, as hexadecimal digits."""
    digest = hashlib.sha256()
    for variable in sorted(model.weights, key=lambda variable: variable.path):
        if "seed_generator" not in variable.path:  # the state of dropout does not affect vectors
            digest.update(f"{variable.path} {tuple(variable.shape)}\n".encode())
            digest.update(to_numpy(variable).astype("float32").tobytes())
    return digest.hexdigest()


class Embedder(Task):
    """A task that computes the vectors of texts, for a search. Abstract."""

    vectors: str
    """What a text has: a "dense" vector, a "sparse" vector, or a vector for each of its "tokens"."""

    encoder: keras.Model
    """The model that is saved; the vectors are computed from its output."""

    modules: Sequence[keras.layers.Layer] | None = None
    """The layers after the encoder and the pooling; None if there are never any."""

    prompts: dict[str, str]
    default_prompt: str | None

    without_effect: tuple[str, ...] = ("objective", "scale")
    """The settings that do not affect vectors."""

    unsaved: tuple[str, ...] = ("modules",)  # their weights are in separate files

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def described_model(self) -> keras.Model:
        """The model whose weights identify the embedder."""
        return self.model

    @classmethod
    def check_encoder(cls, model: keras.Model) -> None:
        """Raise a ValueError for a model without a config or with heads."""
        if getattr(model, "config", None) is None or not set(heads_of(model)) <= {"pooler"}:
            raise ValueError(f"{cls.__name__} must have a BertModel without heads; from_encoder makes one.")

    def prompt_text(self, prompt: str | None) -> str:
        """The prompt that is put before every text.

        Args:
            prompt: the name of a prompt in the settings, "query" or "document"; a text of more than a word, such as "query: ", is
                the prompt itself. None for the default prompt, if there is one.

        Raises:
            ValueError: no prompt has the name; the error lists the known ones.
        """
        return prompt_text(self.prompts, self.default_prompt if prompt is None else prompt)

    def description(self) -> dict[str, Any]:
        """Plain values that identify the model and the settings that affect its vectors, for an index.

        They differ if the vectors of two embedders differ, so that an index is never searched with the vectors of another model.
        """
        tokens = repr((type(self.tokenizer).__name__, sorted(self.tokenizer.tokens.items())))
        settings = {name: value for name, value in self.settings().items() if name not in self.without_effect}
        return {
            "kind": self.kind,
            "vectors": self.vectors,
            "width": self.width,
            "weights": weights_digest(self.described_model),
            "tokenizer": hashlib.sha256(tokens.encode()).hexdigest(),
            **settings,
            **({} if self.modules is None else {"modules": [shown(module) for module in modules_of(self.modules)]}),
        }

    def model_to_save(self) -> keras.Model:
        return self.encoder
