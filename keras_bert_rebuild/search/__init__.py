"""Search in documents by their vectors: an index on disk, exact search in it, and negatives mined from it."""
