"""Export models to other runtimes. The package is callable: `export(model, tokenizer, path)` is that of `export_model.py`."""

import sys
import types


class _CallablePackage(types.ModuleType):
    """A package that can be called like the function of its name, so that neither hides the other in any import order."""

    def __call__(self, model, tokenizer, path, format="saved_model", **options):
        from keras_bert_rebuild.export.export_model import export

        return export(model, tokenizer, path, format, **options)


sys.modules[__name__].__class__ = _CallablePackage
