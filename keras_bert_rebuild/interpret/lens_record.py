"""The result of the logit lens: a frozen record, its JSON, its tables in a terminal and its page."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Group
from rich.text import Text

from keras_bert_rebuild.explain.html_page import page_of_files
from keras_bert_rebuild.explain.record import NUMBER, Record, make_table, spread
from keras_bert_rebuild.files.printable import Verbatim, printable

# Width in characters of the column of a depth, and of the columns before these.
CELL, FIRST = 11, 14

# The number of masks that get a table each.
DETAILED = 4


@dataclass(frozen=True)
class LogitLens(Record):
    """The predictions of the MLM head after the embedding and after every block; from `logit_lens`."""

    json_indent: ClassVar[int | None] = None

    tokens: tuple[str, ...]
    """The tokens of the text, special ones included."""

    words: tuple[str, ...]
    """The characters of the text for every token, "" for special tokens that are not in it."""

    masked: tuple[bool, ...]
    """Which tokens are masks."""

    depths: tuple[str, ...]
    """"embedding", "block 1" and so on, along the first axis of the arrays."""

    top_tokens: tuple[tuple[tuple[str, ...], ...], ...]
    """The most probable tokens for each depth and position, `(depths, length, top_k)`."""

    final_tokens: tuple[str, ...]
    """The prediction of the model at every position."""

    true_tokens: tuple[str | None, ...]
    """The true token at every position; None at masks without a known one."""

    top_ids: np.ndarray
    """The ids of `top_tokens`, `(depths, length, top_k)`, int32."""

    top_probabilities: np.ndarray
    """The probabilities of `top_tokens`, `(depths, length, top_k)`, float32."""

    final_ranks: np.ndarray
    """The rank of the model's prediction at every depth, 1 for the most probable token, `(depths, length)`, int32."""

    final_probabilities: np.ndarray
    """Its probability, `(depths, length)`, float32."""

    true_ranks: np.ndarray
    """The rank of the true token; 0 if that is unknown, `(depths, length)`, int32."""

    true_probabilities: np.ndarray
    """Its probability; NaN if the true token is unknown, `(depths, length)`, float32."""

    divergences: np.ndarray
    """The KL divergence of the prediction at a depth from that of the model, in nats: Σ p log(p / q), with p of the last block and
    q of this one, `(depths, length)`, float32."""

    def positions(self) -> tuple[int, ...]:
        """The positions to show first: the masks, or without masks the tokens of the text."""
        masks = [i for i, masked in enumerate(self.masked) if masked]
        return tuple(masks or (i for i, word in enumerate(self.words) if word))

    def settled(self, position: int) -> int:
        """The first depth from which all predictions equal that of the last block."""
        other = np.flatnonzero(self.final_ranks[:, position] > 1)
        return int(other[-1]) + 1 if len(other) else 0

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; null if the true token is unknown."""
        with_truth = [token is not None for token in self.true_tokens]
        only = lambda rows: [[value if ok else None for value, ok in zip(row, with_truth, strict=True)] for row in rows]  # noqa: E731
        return {
            "tokens": list(self.tokens),
            "words": list(self.words),
            "masked": list(self.masked),
            "depths": list(self.depths),
            "top": [
                [
                    [[token, probability] for token, probability in zip(*of_position, strict=True)]
                    for of_position in zip(tokens, probabilities, strict=True)
                ]
                for tokens, probabilities in zip(self.top_tokens, rounded(self.top_probabilities), strict=True)
            ],
            "final_tokens": list(self.final_tokens),
            "final_ranks": self.final_ranks.tolist(),
            "final_probabilities": rounded(self.final_probabilities),
            "true_tokens": list(self.true_tokens),
            "true_ranks": only(self.true_ranks.tolist()),
            "true_probabilities": only(rounded(np.nan_to_num(self.true_probabilities))),
            "divergences": rounded(self.divergences),
        }

    def to_tables(self, width: int = 80) -> Any:
        """Tables for `rich`: all details for a few masks; for more masks, or a text without any, the most probable tokens.

        Args:
            width: characters per line; if not all depths fit, some are shown, evenly spread, including the first and the last.
        """
        masks = [i for i in self.positions() if self.masked[i]]
        parts = [_of_position(self, position) for position in masks[:DETAILED]]
        if len(parts) < max(len(masks), 1):
            shown = spread(len(self.depths), max(2, (width - FIRST) // CELL))
            parts.append(_overview(self, shown))
            if len(shown) < len(self.depths):
                parts.append(Text(f"{len(shown)} of {len(self.depths)} depths fit into {width} characters.", "dim"))
        return Group(*(line for part in parts for line in ("", part)))

    def __str__(self) -> str:
        return self.json_text().rstrip("\n")


def rounded(array: Any) -> Any:
    """An array as lists of numbers with four significant digits."""
    values = np.asarray(array, "float64")
    scale = 10.0 ** (3 - np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values)))))
    return _plain(np.round(values * scale) / scale)


def _plain(values):
    return [_plain(row) for row in values] if values.ndim else float(f"{values:.4g}")


def _overview(lens, depths):
    names = ("text", *(lens.depths[depth] for depth in depths))
    table = make_table(*((Text(name), {"no_wrap": True}) for name in names))
    for position in lens.positions():
        cells = []
        for depth in depths:
            token = lens.top_tokens[depth][position][0]
            style = "bold" if token == lens.final_tokens[position] else "dim"
            cells.append(Text.assemble((_cut(token), style), (f" {lens.top_probabilities[depth, position, 0]:.0%}", "dim")))
        table.add_row(Text(_cut(lens.words[position] or lens.tokens[position]), "cyan"), *cells)
    return table


def _of_position(lens, position):
    true = lens.true_tokens[position]
    truth_columns = [] if true is None else [f"rank of {_cut(true, 20)}"]
    final = _cut(lens.final_tokens[position], 20)
    table = make_table(
        ("", {}),
        ("likeliest", {}),
        *((Text(name), NUMBER) for name in (f"rank of {final}", *truth_columns, "divergence")),
        title=f"{_cut(lens.tokens[position], 20)}, token {position}",
        title_justify="left",
        title_style="bold",
    )
    for depth, name in enumerate(lens.depths):
        tokens = zip(lens.top_tokens[depth][position], lens.top_probabilities[depth, position], strict=True)
        likeliest = Text(", ").join(
            Text.assemble(
                (_cut(token, 20), "bold" if token == true or token == lens.final_tokens[position] else ""), f" {share:.2f}"
            )
            for token, share in tokens
        )
        ranks = [f"{lens.final_ranks[depth, position]:,}", *([f"{lens.true_ranks[depth, position]:,}"] if truth_columns else [])]
        table.add_row(name, likeliest, *ranks, f"{lens.divergences[depth, position]:.2f}")
    return table


def _cut(text, most=10):
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


BODY = Verbatim("""<header class="top">
  <div>
    <h1>What would it say here</h1>
    <p class="subtitle" id="text"></p>
  </div>
  <button id="theme" type="button" class="quiet"></button>
</header>
<main>
<fieldset class="choice" id="colours"><legend>Colour</legend></fieldset>
<div class="split">
  <div>
    <div class="table" tabindex="0" role="region" aria-label="Likeliest token of every depth">
      <table class="lens" id="lens"></table>
    </div>
    <p class="note">The likeliest token after every block, read by the model's own MLM head; bold where it is the model's answer.
    Arrow keys go from cell to cell.</p>
  </div>
  <section class="side" id="side" aria-live="polite" aria-label="The chosen cell"></section>
</div>
</main>""")


def lens_page(lens: LogitLens, *, name: str = "") -> str:
    """A page with the predictions of all depths, and the details of a selected one.

    A single file that needs no network; texts are escaped.

    Args:
        lens: the lens to show.
        name: name of the model.

    Returns:
        The text of an HTML file.
    """
    text = " ".join(word for word in lens.words if word)
    return page_of_files(
        "What would it say here",
        "interpret",
        ["page.css", "lens.css"],
        BODY,
        scripts=["page.js", "lens.js"],
        data={"name": name, "text": text, **lens.to_json()},
    )
