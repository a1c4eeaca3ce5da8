"""From documents to training batches: pairing and masking as pure seeded functions."""
