"""Checks of the arguments of a search."""

from keras_bert_rebuild.files.printable import printable


def checked_queries(queries):
    """The queries as a list of texts.

    Raises:
        ValueError: queries is a string instead of a list of texts, or an item is not a string.
    """
    if isinstance(queries, (str, bytes)):
        raise ValueError(f"queries must be a list of texts; got the string {queries[:40]!r}: put it into a list.")
    queries = list(queries)
    wrong = next((query for query in queries if not isinstance(query, str)), None)
    if wrong is not None:
        raise ValueError(f"queries must be texts; got {type(wrong).__name__} {str(wrong)[:40]!r}.")
    return queries


def check_numbers(**numbers):
    """Refuse numbers, given by name, that are not whole numbers of at least 1.

    Raises:
        ValueError: a number is not; the error names it.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {number!r}.")


def check_judgements(index, judgements):
    """Refuse judgements of documents that are missing from an index.

    Args:
        index: an `Index`.
        judgements: `{query: {document: grade}}`.

    Raises:
        ValueError: there are such documents; the error names one and gives their number.
    """
    judged = dict.fromkeys(name for grades in judgements.values() for name in grades)
    unknown = [name for name in judged if index.documents.row(name) is None]
    if unknown:
        raise ValueError(
            f"expected judgements of documents of the index; {len(unknown):,} of {len(judged):,} judged documents are not in "
            f"{printable(index.path)}, such as {printable(unknown[0])!r}."
        )
