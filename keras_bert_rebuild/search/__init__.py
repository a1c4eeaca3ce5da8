"""Vector search over documents: an index on disk, exact search in it, and mining of hard negatives."""
