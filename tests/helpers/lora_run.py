"""Low-rank matrices in a process that did not train them: the outputs, and the loss when training continues."""

import sys

import keras

from helpers.small_tasks import PETS, trained
from keras_bert_rebuild import load_lora, load_task

keras.utils.set_random_seed(7)
task = load_task(f"{sys.argv[1]}/base")
load_lora(task.model, f"{sys.argv[1]}/lora.safetensors")
probability = task.predict_examples(PETS)[0].probability
print(probability, *trained(task, PETS, epochs=6, rate=3e-3))
