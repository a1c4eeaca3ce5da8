"""What is written of an answer, for every kind of examples: plain values by name."""


def _of_text(example):
    return {"text": example.text} if example.pair is None else {"text": example.text, "pair": example.pair}


def _classified(example, answer):
    probabilities = {label: round(value, 6) for label, value in answer.probabilities.items()}
    return {
        **_of_text(example),
        "label": answer.label,
        "probability": round(answer.probability, 6),
        "probabilities": probabilities,
    }


def _classified_many(example, answer):
    probabilities = {label: round(value, 6) for label, value in answer.probabilities.items()}
    return {**_of_text(example), "labels": list(answer.labels), "probabilities": probabilities}


def _scored(example, answer):
    return {**_of_text(example), "score": round(answer.score, 6)}


def _tagged(example, answer):
    entities = [{**entity._asdict(), "probability": round(entity.probability, 6)} for entity in answer.entities]
    if hasattr(example, "words"):
        return {"words": list(example.words), "tags": list(answer.tags), "entities": entities}
    return {"text": example.text, "entities": entities}


def _answered(example, answer):
    best = [
        {"text": one.text, "start": one.start, "end": one.end, "probability": round(one.probability, 6)} for one in answer.best[:5]
    ]
    place = {"start": answer.start, "end": answer.end, "probability": round(answer.probability, 6)}
    return {"id": example.id, "question": example.question, "answer": answer.text, **place, "best": best}


def _similar(example, answer):
    return {"first": example.first, "second": example.second, "score": round(float(answer), 6)}


def _chosen(example, answer):
    probabilities = [round(float(value), 6) for value in answer.probabilities]
    return {"prompt": example.prompt, "choice": answer.index, "text": answer.text, "probabilities": probabilities}


# Kind of examples: a function from an example and its answer to a row.
ROWS = {
    "classification": _classified,
    "multi_label": _classified_many,
    "regression": _scored,
    "tagging": _tagged,
    "questions": _answered,
    "similarity": _similar,
    "choices": _chosen,
}
