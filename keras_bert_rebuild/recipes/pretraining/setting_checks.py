"""Checks of settings, with errors of one sentence."""

from keras_bert_rebuild.files.limits import is_number


def check_choices(settings, choices):
    """Refuse a setting that is not one of its values.

    Args:
        settings: an object with the settings as attributes.
        choices: a dictionary from name to values.

    Raises:
        ValueError: a setting has another value.
    """
    for name, values in choices.items():
        if getattr(settings, name) not in values:
            shown = ", ".join(repr(value) for value in values if value is not None)
            raise ValueError(f"{name} must be one of {shown}; got {getattr(settings, name)!r:.80}.")


def check_fractions(settings, maximums, optional=()):
    """Refuse a setting that is not a number from 0 to its maximum; optional ones may be None."""
    for name, high in maximums.items():
        value = getattr(settings, name)
        if not (value is None and name in optional) and not (is_number(value) and 0 <= value <= high):
            raise ValueError(f"{name} must be a number from 0 to {high}; got {value!r:.80}.")


def above_zero(settings, names, optional=False):
    """Refuse a setting that is not a number above 0; optional ones may be None."""
    for name in names:
        value = getattr(settings, name)
        if not (value is None and optional) and not (is_number(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0; got {value!r:.80}.")
