"""The graph of BERT and the model classes around it."""
