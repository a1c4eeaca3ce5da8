"""Models for the runtimes of others. The package can be called: `export(model, tokenizer, path)` is that of `export_model.py`."""

import sys
import types


class _CallablePackage(types.ModuleType):
    """A package and the function that is named like it, so that neither hides the other, in whatever order they are imported."""

    def __call__(self, model, tokenizer, path, format="saved_model", **options):
        from keras_bert_rebuild.export.export_model import export

        return export(model, tokenizer, path, format, **options)


sys.modules[__name__].__class__ = _CallablePackage
