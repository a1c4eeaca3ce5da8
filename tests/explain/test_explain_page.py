"""What docs/explain.md says is true."""

import re
from pathlib import Path

from helpers import minilm

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_blocks_run_and_give_the_figures_of_the_text():
    said = {}
    page = PAGE.replace('"all-MiniLM-L6-v2"', repr(str(minilm.FOLDER)))
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/explain.md", "exec"), said)
    assert said["explanation"].total("params") == 109_482_240
    found, anatomy = said["found"], said["anatomy"]
    name, score = found.of_head(0, 2)[0]
    assert (name, round(score, 2)) == ("previous token", 0.96)
    resting = [any(name == "delimiter" for name, _ in found.of_head(i, j)) for i in range(6) for j in range(12)]
    assert f"{sum(resting)} of {len(resting)} heads attend mostly to the delimiters" in PAGE
    cat = anatomy.tokens.index("cat")
    assert [round(float(norm), 1) for norm in (*anatomy.norms[:, cat], anatomy.norms[2, 0])] == [1.4, 0.5, 0.4, 2.4]
    assert [round(float(cosine), 2) for cosine in anatomy.cosines_summed[:, cat]] == [0.89, 0.25, 0.24]
    assert anatomy.norms.max() == anatomy.norms[2, 0]
    near = said["nearest_tokens"](said["model"], said["tokenizer"], "king", 3)
    assert ", ".join(f"{row.token} {row.cosine:.2f}" for row in near) in PAGE
    near = said["nearest_in_texts"](said["model"], said["tokenizer"], said["texts"], text=0, position=5, count=2)
    assert [(row.text, row.token, round(row.cosine, 2)) for row in near] == [(2, "bank", 0.92), (1, "bank", 0.82)]
