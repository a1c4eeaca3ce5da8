"""What is attributed for each task: a file for tasks with an answer for a text, for words in it, and for vectors of texts."""
