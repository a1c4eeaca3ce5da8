"""How a model is trained: losses, optimizers, what learns, checkpoints, devices; `compile_model` puts a pretraining together."""
