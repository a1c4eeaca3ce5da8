"""The folder of a training by a recipe: its arguments, its decisions and its results."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.files.kinds import STORE, folder_kind
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.yaml_files import read_yaml, write_yaml
from keras_bert_rebuild.recipes.pretraining.masked_score import MaskedScore
from keras_bert_rebuild.recipes.pretraining.recipe import Recipe
from keras_bert_rebuild.recipes.run_folder import FREE, refuse_other
from keras_bert_rebuild.recipes.settings import plain


class RecipeFolder:
    """The files of a training by a recipe, made now or by an earlier start of the same training.

    Args:
        path: the folder.
        recipe: its `Recipe`.
        given: the settings of the user.
        corpora: the paths of the corpora.
        vocabulary: the path of a vocabulary, or None.
        mix: weights of the corpora, or None.
        document_per_file: whether each file is one document.

    Raises:
        ValueError: the folder has a training on another corpus, with another recipe or with other settings.
    """

    def __init__(
        self,
        path: Any,
        recipe: Recipe,
        given: Mapping[str, Any],
        corpora: Sequence[Path],
        vocabulary: Any = None,
        mix: Sequence[float] | None = None,
        document_per_file: bool = False,
    ) -> None:
        self.path = Path(path)
        self.asked = plain(
            {
                "corpora": [_described(corpus, document_per_file) for corpus in corpora],
                "mix": mix,
                "vocabulary": None if vocabulary is None else hashlib.sha256(Path(vocabulary).read_bytes()).hexdigest(),
                "recipe": asdict(recipe),
                "options": {name: value for name, value in given.items() if name not in FREE},
            }
        )
        self._decided = None
        file = self.path / "recipe.yaml"
        if file.is_file() and any((self.path / name).exists() for name in ("vocab.txt", "tokens", "run")):
            known = read_yaml(file)
            _check_same(known, self.asked, self.path)
            self._decided = _decision(known.get("decided"), len(recipe.sizes), file)
        else:
            self._write()

    @property
    def vocabulary(self) -> Path:
        """The file of the learned vocabulary."""
        return self.path / "vocab.txt"

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.path / "run"

    def stores(self, count: int) -> list[Path]:
        """The folders of the token stores of this number of corpora."""
        tokens = self.path / "tokens"
        return [tokens] if count == 1 else [tokens / f"{i + 1:04d}" for i in range(count)]

    @property
    def decided(self) -> tuple[int | None, float | None]:
        """The index of the chosen size, and the FLOP/s it was chosen for; these are None if nothing has been decided."""
        return (None, None) if self._decided is None else (self._decided["size"], self._decided["flops_per_second"])

    def decide(self, size: int | None, flops_per_second: float) -> None:
        """Record the chosen size, so that later starts use it."""
        self._decided = {"size": size, "flops_per_second": flops_per_second}
        self._write()

    def score(self) -> MaskedScore | None:
        """The score, or None if there is none yet."""
        file = self.path / "score.yaml"
        values = read_yaml(file) if file.is_file() else {}
        names = MaskedScore.__dataclass_fields__
        return MaskedScore(**values) if set(values) == set(names) and all(map(is_number, values.values())) else None

    def write_score(self, score: MaskedScore) -> None:
        """Save the score."""
        write_yaml(self.path / "score.yaml", asdict(score))

    def _write(self):
        write_yaml(self.path / "recipe.yaml", {**self.asked, "decided": self._decided})


def _described(corpus, document_per_file):
    """What identifies a corpus."""
    if corpus.is_dir() and folder_kind(corpus) is STORE:
        return {"tokens": TokenStore(corpus).sha256}
    return {**CorpusReader(corpus, document_per_file).fingerprint(), "document_per_file": document_per_file}


def _decision(decided, sizes, file):
    """The decision in the file, checked."""
    if decided is None:
        return None
    size = decided.get("size") if isinstance(decided, dict) else False
    known = size is None or (type(size) is int and 0 <= size < sizes)
    if not known or not is_number(decided.get("flops_per_second")) or decided["flops_per_second"] <= 0:
        raise ValueError(f"{file} must be the file of a training by a recipe; got the decision {decided!r:.80}.")
    return {name: decided[name] for name in ("size", "flops_per_second")}


def _check_same(before, now, path):
    """Refuse a folder of another training; the error names what differs, by nested key where there is one."""
    values = []
    for name, value in now.items():
        known = before.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            values += [(key, known.get(key), value.get(key)) for key in {**known, **value}]
        else:
            values.append((name, known, value))
    refuse_other(path, "another training", "command", values)
