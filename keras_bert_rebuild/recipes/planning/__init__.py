"""What a training will take on devices that are not here yet."""
