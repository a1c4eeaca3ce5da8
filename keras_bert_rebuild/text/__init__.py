"""From text to tokens: normalisation, WordPiece, vocabularies and keras_bert's `Tokenizer`."""
