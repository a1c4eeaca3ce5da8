"""Questions in files in the format of SQuAD."""

import json

from keras_bert_rebuild.data.example_kinds import checked_answers
from keras_bert_rebuild.data.labelled_examples import Question
from keras_bert_rebuild.data.labelled_file import location, read_text
from keras_bert_rebuild.files.json_text import check_depth
from keras_bert_rebuild.files.limits import check_limit


def read_squad(path, labelled=True):
    """The questions of a file of SQuAD 1.1 or 2.0.

    Args:
        path: the file.
        labelled: whether every question must have answers or be marked as having none.

    Returns:
        A list of `Question`; a question without an answer, in 2.0, has the empty tuple.

    Raises:
        ValueError: a part is missing, an answer is not at its offset in the context, or two questions have the same id.
    """
    try:
        text = read_text(path)
        check_limit("labelled_json_bytes", len(text), str(path))
        check_limit("labelled_json_values", sum(map(text.count, ",:[{")), str(path))
        content = json.loads(text)
        check_depth(content, path)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected JSON; {location(path, error.lineno)} is not, at character {error.colno}: {error.msg}."
        ) from None
    except RecursionError:
        raise ValueError(f"expected JSON as in SQuAD; {path} is nested too deeply.") from None
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"expected JSON as in SQuAD; {path} is not: {error}") from None
    found, seen = [], {}
    for i, article in enumerate(_list(content, "data", path)):
        for j, paragraph in enumerate(_list(article, "paragraphs", f"{path}, data[{i}]")):
            where = f"{path}, data[{i}].paragraphs[{j}]"
            context = _string(paragraph, "context", where)
            for k, row in enumerate(_list(paragraph, "qas", where)):
                question = _read_question(row, context, f"{where}.qas[{k}]", labelled)
                if question.id in seen:
                    raise ValueError(
                        f"expected a unique id for every question; {question.id} is that of {seen[question.id]}"
                        f" and of {question.where}."
                    )
                seen[question.id] = question.where
                found.append(question)
    if not found:
        raise ValueError(f"expected at least one question; {path} has none.")
    return found


def _read_question(row, context, where, labelled):
    name, text = _string(row, "id", where), _string(row, "question", where)
    if row.get("is_impossible") is True:
        return Question(name, text, context, (), where=where)
    answers = row.get("answers")
    if answers is None or (not answers and "is_impossible" not in row):
        if labelled:
            raise ValueError(f"expected answers, or is_impossible; question {name} has neither in {where}.")
        return Question(name, text, context, None, where=where)
    return Question(name, text, context, checked_answers(answers, context, where), where=where)


def _list(value, name, where):
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"expected a list named {name}, as in SQuAD; got {found!r:.60} in {where}.")
    return found


def _string(value, name, where):
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"expected a string named {name}, as in SQuAD; got {found!r:.60} in {where}.")
    check_limit("cell_characters", len(found), f"{name} in {where}")
    return found
