"""Training: losses, optimizers, trainable variables, checkpoints, devices; `compile_model` combines them for pretraining."""
