"""What an encoder is made of, as data: described once, and read by everything that builds, counts, cuts, explains or names it."""
