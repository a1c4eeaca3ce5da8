"""From documents to training batches; sentence pairs and masks are pure functions of a seed."""
