"""Documents, queries, relevance judgements and rankings."""
