"""Record the values of parts of a model for texts, to inspect them or to patch them into the run of another text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.explain.token_rows import rows_of_texts
from keras_bert_rebuild.interpret.sites import Site, changed, encoder_of, located_site
from keras_bert_rebuild.models.encoder_view import EncoderView


@dataclass(frozen=True)
class Recording:
    """The values of sites for some rows, as float32 arrays."""

    values: Mapping[Site, np.ndarray] = field(repr=False)
    """For every site `(rows, length, width of the site)`; for a mean `(1, 1, width of the site)`."""

    mask: np.ndarray | None
    """False at padding, `(rows, length)`; None for a mean."""

    tokens: tuple[tuple[str, ...], ...] | None = None
    """The tokens of every row; None if ids were given."""

    def of(self, site: Site) -> np.ndarray:
        """The values of a site.

        Raises:
            ValueError: it was not recorded.
        """
        if site not in self.values:
            raise ValueError(f"expected one of the recorded sites, {', '.join(map(str, self.values)) or 'none'}; got {site}.")
        return self.values[site]

    def row(self, number: int) -> Self:
        """The recording of one row, from 0."""
        if self.mask is None:
            raise ValueError("expected a recording with rows; got a mean, which has none.")
        number = range(len(self.mask))[number]
        rows = slice(number, number + 1)
        values = {site: array[rows] for site, array in self.values.items()}
        return type(self)(values, self.mask[rows], None if self.tokens is None else self.tokens[rows])

    def mean(self) -> Self:
        """The means over all tokens except padding, for mean ablation."""
        if self.mask is None:
            return self
        means = {site: array[self.mask].mean(0, dtype="float64").astype("float32") for site, array in self.values.items()}
        return type(self)({site: mean[None, None] for site, mean in means.items()}, None)


def record(subject: Any, inputs: Any, sites: Sequence[Site]) -> Recording:
    """Run the encoder as in prediction and record the values of sites.

    Args:
        subject: a model with an encoder of this library in it, or a task.
        inputs: for a task a list of texts, or of pairs of texts, each one row; for a model its inputs `(batch, length)`, as for
            `attention_maps`.
        sites: `Head`, `Neuron`, `Block` and `Position`; for positions, the values of the whole row are recorded.

    Returns:
        A `Recording`. Within `intervene` it has the altered values.

    Raises:
        ValueError: a site is not in the model, or the inputs do not suit it.
    """
    encoder = encoder_of(subject)
    ids, tokens = _rows(subject, encoder, inputs)
    kept: dict[Site, Any] = {}
    sites_of: dict[tuple[str, int], list[Any]] = {}
    for site in sites:
        located = located_site(encoder, site)
        sites_of.setdefault((located.kind, located.run), []).append((site, located))

    def keeping(wanted):
        def keep(values, here):
            array = ops.convert_to_numpy(ops.cast(ops.stop_gradient(values), "float32"))
            kept.update({site: np.ascontiguousarray(array[..., located.columns]) for site, located in wanted})
            return values

        return keep

    with changed(subject, encoder, {key: keeping(wanted) for key, wanted in sites_of.items()}):
        start = encoder.embed(ids)
        for _ in encoder.states(start, 1 + max((run for _, run in sites_of), default=-1), gradients=False):
            pass
    return Recording({site: kept[site] for site in sites}, ops.convert_to_numpy(start.tokens).astype(bool), tokens)


def record_means(subject: Any, inputs: Any, sites: Sequence[Site], batch_size: int = 32) -> Recording:
    """The means of sites over a data set, computed in batches, for mean ablation.

    Args:
        subject, inputs, sites: as for `record`.
        batch_size: rows per batch.

    Returns:
        A `Recording` of means, as from `Recording.mean`.
    """
    if isinstance(inputs, Mapping):
        rows, part = len(next(iter(inputs.values()))), lambda of: {name: values[of] for name, values in inputs.items()}
    elif _is_text(inputs):
        rows, part = len(inputs), lambda of: inputs[of]
    else:
        arrays = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        rows, part = len(arrays[0]), lambda of: bare_if_one([values[of] for values in arrays])
    if not rows:
        raise ValueError("inputs must have at least one row; got none.")
    totals: dict[Site, Any] = {}
    count = 0
    for start in range(0, rows, batch_size):
        recording = record(subject, part(slice(start, start + batch_size)), sites)
        real = np.asarray(recording.mask)
        count += int(real.sum())
        for site, array in recording.values.items():
            totals[site] = totals.get(site, 0.0) + array[real].sum(0, dtype="float64")
    return Recording({site: (total / count).astype("float32")[None, None] for site, total in totals.items()}, None)


def _rows(subject: Any, encoder: EncoderView, inputs: Any) -> tuple[dict[str, np.ndarray], Any]:
    """The inputs of the embedding by name, and the tokens if texts are given."""
    if not _is_text(inputs):
        return encoder.arrays(inputs), None
    tokenizer = getattr(subject, "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            f"inputs must be arrays of ids for a {type(subject).__name__}; got texts, which need a task with a tokenizer."
        )
    pairs = None if isinstance(inputs[0], str) else [second for _, second in inputs]
    texts = inputs if pairs is None else [first for first, _ in inputs]
    length = encoder.host.inputs[0].shape[1]
    rows = rows_of_texts(tokenizer, texts, pairs, None, length, length or encoder.max_length)
    return encoder.arrays(rows.inputs()), rows.tokens


def _is_text(inputs: Any) -> bool:
    """Whether inputs are texts or pairs of texts."""
    first = inputs[0] if isinstance(inputs, (list, tuple)) and len(inputs) else inputs
    return isinstance(first, str) or (isinstance(first, (list, tuple)) and all(isinstance(text, str) for text in first))
