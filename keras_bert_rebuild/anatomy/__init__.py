"""The parts of an encoder as data: described once, for all code that builds, counts, shards, explains or names them."""
