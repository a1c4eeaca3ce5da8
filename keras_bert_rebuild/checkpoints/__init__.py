"""Foreign files into arrays by name, and arrays into variables."""
