"""Interpretation of models: attributions, interventions, and what every block encodes. Names are imported on first use."""

import importlib
from typing import Any

# Modules and their public names, sorted. No module has the name of a function, since importing it would shadow the function.
_LAZY = (
    ("attribute_texts", ("MaskedWords", "attribute")),
    ("attribution", ("AttributedToken", "AttributedWord", "Attribution")),
    ("head_importance_of_task", ("HeadImportance", "head_importance")),
    ("head_pruning", ("PrunedTask", "prune_heads", "prune_task")),
    ("intervene_in_model", ("intervene",)),
    ("lens_of_text", ("logit_lens",)),
    ("lens_record", ("LogitLens",)),
    ("methods", ("METHODS",)),
    ("probe_blocks", ("probe",)),
    ("probing", ("Probing", "draw_probing")),
    ("recording", ("Recording", "record", "record_means")),
    ("sites", ("Block", "Head", "Neuron", "Position")),
)

_MODULE_OF = {name: module for module, names in _LAZY for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'keras_bert_rebuild.interpret' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"keras_bert_rebuild.interpret.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
