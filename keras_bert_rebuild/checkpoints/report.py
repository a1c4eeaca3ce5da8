"""What a load did, as a table."""

from dataclasses import dataclass, field


@dataclass
class LoadReport:
    """What happened to every variable of the model and every name of the file. Printed, it is a table."""

    source: str = ""
    """The file or folder, and its format."""

    loaded: list = field(default_factory=list)
    """`(path, name, shape)` of the variables that were filled, with the array they were filled from."""

    missing: list = field(default_factory=list)
    """`(path, why)` of the variables that keep their random values; empty after a strict load."""

    unused: list = field(default_factory=list)
    """Names of the file that were not used: heads that were not requested, and unknown names."""

    reshaped: list = field(default_factory=list)
    """`(path, their shape, our shape)` of the variables that were shortened or extended."""

    ignored: list = field(default_factory=list)
    """Names of the file that hold no weights, such as optimizer slots."""

    tokenizer_files: dict = field(default_factory=dict, repr=False)
    """Name to bytes of the tokenizer files next to the weights; not printed."""

    def __str__(self):
        counts = ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in ("loaded", "missing", "unused", "reshaped", "ignored"))
        rows = [("loaded", path, f"{name} {shape}") for path, name, shape in self.loaded]
        rows += [("missing", path, why) for path, why in self.missing]
        rows += [("unused", "", name) for name in self.unused]
        rows += [("reshaped", path, f"{theirs} → {ours}") for path, theirs, ours in self.reshaped]
        rows += [("ignored", "", name) for name in self.ignored]
        widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
        lines = [f"{kind:<{widths[0]}}  {path:<{widths[1]}}  {rest}" for kind, path, rest in rows]
        return "\n".join([f"{self.source}: {counts}", *lines])
