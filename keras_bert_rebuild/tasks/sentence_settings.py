"""Checks of the settings of sentence vectors: poolings, prompts and the similarity measure."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_rebuild.tasks.embedding_model import POOLINGS

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
