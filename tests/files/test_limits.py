"""Every limit is a number with a reason, and is used somewhere."""

from pathlib import Path

import pytest

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import LIMITS, check_limit, limit

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_stated_once_used_and_in_the_page(name):
    number, unit, why = LIMITS[name]
    assert number > 0
    assert unit
    assert why
    sources = [path for part in ("keras_bert_rebuild", "tests/hostile") for path in (ROOT / part).rglob("*.py")]
    of_config = name in BertConfig.__dataclass_fields__  # used by the name of the field
    used = of_config or [path for path in sources if path.name != "limits.py" and f'"{name}"' in path.read_text(encoding="utf-8")]
    assert used, f"nothing asks for {name}"
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {number:,} {unit} | {why} |\n" in page


def test_values_at_a_limit_pass_and_values_above_are_one_sentence():
    check_limit("yaml_depth", limit("yaml_depth"), "a.yaml")
    with pytest.raises(ValueError, match=r"^a\.yaml must have at most 32 levels; got 33\.$"):
        check_limit("yaml_depth", 33, "a.yaml")
    with pytest.raises(ValueError, match=r"got a number of 3\d\d hexadecimal digits"):
        check_limit("vocab_size", 10**400, "vocab_size")
