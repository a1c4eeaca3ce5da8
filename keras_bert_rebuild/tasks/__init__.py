"""Tasks: classification, tagging, question answering, vectors, search and reranking."""
