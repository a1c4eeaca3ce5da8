"""The command `keras-bert`, one file per verb."""
