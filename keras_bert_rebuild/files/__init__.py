"""Files and folders that are there whole or not at all: names, limits, locks."""
