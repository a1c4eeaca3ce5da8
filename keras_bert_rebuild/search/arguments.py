"""The arguments of a search, checked."""


def checked_queries(queries):
    """A list of the texts of queries.

    Raises:
        ValueError: a string instead of a list of texts, or an item that is not a string.
    """
    if isinstance(queries, (str, bytes)):
        raise ValueError(f"queries must be a list of texts; got the string {queries[:40]!r}: put it into a list.")
    queries = list(queries)
    wrong = next((query for query in queries if not isinstance(query, str)), None)
    if wrong is not None:
        raise ValueError(f"queries must be texts; got {type(wrong).__name__} {str(wrong)[:40]!r}.")
    return queries


def check_numbers(**numbers):
    """Refuse numbers, by their names, that are not whole ones of at least 1.

    Raises:
        ValueError: one is not.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {number!r}.")
