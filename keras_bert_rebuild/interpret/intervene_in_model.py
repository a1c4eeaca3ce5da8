"""Switch off parts of a live model, or replace their values by those of another text."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.interpret.recording import Recording
from keras_bert_rebuild.interpret.sites import Block, LocatedSite, Site, changed, encoder_of, located_site
from keras_bert_rebuild.layers.masks import has_sequences, positions_in_sequences


@contextlib.contextmanager
def intervene(subject: Any, interventions: Sequence[Site] | Mapping[Site, Any]) -> Iterator[Any]:
    """Switch off heads, blocks, units or positions of a live model, or replace their values.

    Within the context, every use of the model has the altered outputs: a call, `predict`, `evaluate`, the task, vectors, on every
    backend, and also models that share its layers. The weights are not changed and the model is not copied; afterwards, even after
    an error, it is exactly as before, including its compiled functions. Contexts may be nested. Functions that you compiled
    yourself are not affected, since they have been traced already. The context is that of this thread: until it ends, no other one
    should use the model, for which Keras has one compiled function.

    Args:
        subject: a model with an encoder of this library in it, or a task.
        interventions: a list of sites to switch off, or a dictionary from sites to replacements:

            - None: switched off. Heads and units output zeros, positions are zero vectors, a block returns its input.
            - a `Recording` of the site: its values at each token of another text (activation patching), or their mean
              (`recording.mean()`, mean ablation). Positions at which one of the texts has no token are unchanged. A single recorded
              row is used for every row; several are used for the rows of a batch, one by one, and only in calls of the model
              itself, since tasks sort rows by length.
            - an array `(width of the site,)`, the same for every token.

    Yields:
        The model or task.

    Raises:
        ValueError: a site is not in the model or was not recorded, or a shape is wrong.

    Example:

    >>> import numpy as np
    >>> from keras_bert_rebuild import BertConfig, build_model
    >>> from keras_bert_rebuild.interpret import Block, Head
    >>> sizes = {"vocab_size": 10, "hidden_size": 4, "num_attention_heads": 2, "intermediate_size": 8}
    >>> model = build_model(BertConfig(**sizes, num_hidden_layers=2))
    >>> with intervene(model, [Head(0, 1), Block(1)]):
    ...     altered = model([np.array([[1, 2, 3]]), np.zeros((1, 3), int)])

    Reference: Vig et al., 2020, section 3 (https://arxiv.org/abs/2004.12265); Meng et al., 2022, section 2
    (https://arxiv.org/abs/2202.05262), for values of another run; Michel et al., 2019, section 3.1
    (https://arxiv.org/abs/1905.10650), for switching off heads.
    """
    encoder = encoder_of(subject)
    values_of = interventions if isinstance(interventions, Mapping) else dict.fromkeys(_listed(interventions))
    replacements = defaultdict(list)
    for site, values in values_of.items():
        located = located_site(encoder, site)
        replacements[located.kind, located.run].append(_replacement(subject, site, located, values))
    with changed(subject, encoder, {place: _one_by_one(those) for place, those in replacements.items()}):
        yield subject


class Replacement:
    """The replacement of a site: values at some columns and tokens of `(batch, length, width)`.

    Args:
        located: the site.
        values: `(rows, tokens, columns)`; None for zeros.
        real: whether the values have a token, `(rows, tokens)`; None for values that are the same at every token.
        skips: replace by the input of the block instead.
    """

    def __init__(self, located: LocatedSite, values: np.ndarray | None, real: np.ndarray | None, skips: bool = False) -> None:
        self.located, self.real, self.skips = located, real, skips
        self.columns = np.isin(np.arange(located.width), located.columns)
        self.values = values
        if values is not None:
            self.values = np.zeros((*values.shape[:2], located.width), "float32")
            self.values[:, :, located.columns] = values

    def __call__(self, x: Any, here: Any) -> Any:
        replaced = ops.convert_to_tensor(self.columns)[None, None]
        tokens: Any = None
        if self.located.positions is not None or self.real is not None:
            packed = has_sequences(here.mask)
            tokens = positions_in_sequences(here.mask) if packed else ops.arange(ops.shape(x)[1], dtype="int32")[None]
        if self.located.positions is not None:
            among = ops.convert_to_tensor(np.array(self.located.positions, "int32"))
            replaced = ops.logical_and(replaced, ops.any(ops.equal(tokens[..., None], among), axis=-1)[..., None])
        if self.skips:
            new = here.entered
        elif self.values is None:
            new = ops.zeros_like(x)
        elif self.real is None:
            new = ops.convert_to_tensor(self.values)
        else:
            new, there = self._at_tokens(x, tokens, here)
            replaced = ops.logical_and(replaced, there[..., None])
        return ops.where(replaced, ops.cast(new, x.dtype), x)

    def _at_tokens(self, x, tokens, here):
        """The values at every token of the rows, and whether both have a token."""
        rows, count = self.real.shape
        columns = ops.minimum(tokens, count - 1)
        values, real = ops.convert_to_tensor(self.values), ops.convert_to_tensor(self.real)
        if rows == 1:
            new, there = (ops.take(array[0], columns, axis=0) for array in (values, real))
        else:
            if has_sequences(here.mask) or x.shape[0] not in (None, rows):
                got = "rows of several texts" if has_sequences(here.mask) else f"{x.shape[0]} rows"
                raise ValueError(f"the values of {rows} rows were recorded, so a batch must have {rows} rows; got {got}.")
            new, there = (ops.take(array, columns[0], axis=1) for array in (values, real))
        return new, ops.logical_and(there, tokens < count)


def _replacement(subject, site, located, values):
    """The `Replacement` of a site."""
    if values is None:
        return Replacement(located, None, None, skips=isinstance(site, Block))
    if not isinstance(values, Recording):
        array = np.asarray(ops.convert_to_numpy(values) if ops.is_tensor(values) else values, "float32")
        if array.shape != (len(located.columns),):
            raise ValueError(
                f"{site} must be given a Recording, None or an array of shape ({len(located.columns)},); got shape {array.shape}."
            )
        return Replacement(located, array[None, None], None)
    recorded, real = values.of(site), values.mask
    if recorded.shape[-1] != len(located.columns):
        raise ValueError(f"{site} has {len(located.columns)} values for a token; {recorded.shape[-1]} were recorded.")
    if real is not None and len(real) > 1 and not isinstance(subject, keras.Model):
        raise ValueError(
            f"a task needs the values of a single text, since it reorders rows; {len(real)} were recorded: choose one, such as "
            "recording.row(0), or intervene in the model of the task and call it."
        )
    return Replacement(located, recorded, real)


def _one_by_one(replacements):
    """All replacements at one place, in order."""

    def change(values, here):
        for replacement in replacements:
            values = replacement(values, here)
        return values

    return change


def _listed(interventions):
    if isinstance(interventions, str) or not isinstance(interventions, Sequence):
        raise ValueError(f"interventions must be a list of sites, or a dictionary by site; got {interventions!r:.80}.")
    return interventions
