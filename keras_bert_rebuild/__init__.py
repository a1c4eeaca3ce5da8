"""BERT for Keras 3 with keras_bert's interface: every layer a row of the summary, on TensorFlow, JAX and torch."""

__version__ = "0.1.0"

from keras_bert_rebuild.models.get_model import get_model, get_token_embedding
from keras_bert_rebuild.training.compile_model import compile_model
from keras_bert_rebuild.explain.summary import print_summary
