"""The outputs that are attributed for each task: a file each for tasks on texts, on words, and on vectors of texts."""
