"""Run texts through a Hugging Face folder without this library: folder, texts, output file."""

import json
import sys

import numpy as np
import torch
import transformers

folder, texts, output = sys.argv[1:]
with open(texts, encoding="utf-8") as file:
    texts = json.load(file)
config = transformers.AutoConfig.from_pretrained(folder)
model = getattr(transformers, config.architectures[0]).from_pretrained(folder, attn_implementation="eager").eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
encoded = tokenizer(texts, truncation=True, padding=True, return_tensors="pt")
with torch.inference_mode():
    answers = model(**encoded)
assert not [name for name in sys.modules if name.startswith("keras")]
arrays = {name: value.numpy() for name, value in answers.items() if hasattr(value, "numpy")}
np.savez(output, labels=np.array(list(config.id2label.values())), **arrays)
