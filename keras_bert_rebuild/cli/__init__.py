"""The command `keras-bert`, one file a verb."""
