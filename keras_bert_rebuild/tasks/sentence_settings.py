"""Checks of the settings of sentence vectors: poolings, prompts and the similarity measure."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert_rebuild.tasks.embedding_model import POOLINGS

# The similarity of vectors: their cosine or their product.
MEASURES = ("cosine", "dot")

# Every embedder has prompts for queries and documents, which are empty by default.
ALWAYS = ("query", "document")


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
