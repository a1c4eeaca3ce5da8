"""Everything that a training changes, and its checkpoints."""
