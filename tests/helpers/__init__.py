"""Small models, corpora, references and processes that several tests share."""
