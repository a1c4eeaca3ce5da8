"""What the vectors of an encoder are good for, measured while it is trained."""
