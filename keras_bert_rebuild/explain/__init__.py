"""Explain an architecture from the live model. The package is callable: `explain(model)` is the function of `explanation.py`."""

import sys
import types


class _CallablePackage(types.ModuleType):
    """A package that can be called like the function of its name, so that neither hides the other in any import order."""

    def __call__(self, model_or_config, heads=None, **options):
        from keras_bert_rebuild.explain.explanation import explain

        return explain(model_or_config, heads, **options)


sys.modules[__name__].__class__ = _CallablePackage
