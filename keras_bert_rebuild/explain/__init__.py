"""The architecture, told from the live model. The package can be called: `explain(model)` is that of `explanation.py`."""

import sys
import types


class _CallablePackage(types.ModuleType):
    """A package and the function that is named like it, so that neither hides the other, in whatever order they are imported."""

    def __call__(self, model_or_config, heads=None, **options):
        from keras_bert_rebuild.explain.explanation import explain

        return explain(model_or_config, heads, **options)


sys.modules[__name__].__class__ = _CallablePackage
