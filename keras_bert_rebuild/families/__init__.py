"""What differs between the members of the family, as data: no code."""
