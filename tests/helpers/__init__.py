"""Small models, corpora, references and processes that several tests share."""
# Of tests/package, too.
