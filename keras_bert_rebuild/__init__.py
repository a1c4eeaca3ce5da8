"""BERT for Keras 3: keras_bert's interface, every layer a row of the summary."""

__version__ = "0.1.0"
