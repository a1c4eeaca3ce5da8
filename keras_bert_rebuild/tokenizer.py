"""keras_bert's import path of the tokenizer."""

from keras_bert_rebuild.text.tokenizer import Tokenizer

__all__ = ["Tokenizer"]
