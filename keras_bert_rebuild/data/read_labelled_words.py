"""Tagged words in the columns of CoNLL files."""

from keras_bert_rebuild.data.labelled_examples import TaggedWords
from keras_bert_rebuild.data.labelled_file import location, read_lines

# The columns of words and tags, in files like those of CoNLL-2003 and in those of Universal Dependencies, where the tags are the
# universal parts of speech. Columns are numbered from 1, -1 is the last.
COLUMNS = {"conll": {"words": 1, "tags": -1}, "conllu": {"words": 2, "tags": 4}}
_DOCUMENT = "-DOCSTART-"


def read_words(path, format="conll", columns=None, labelled=True):
    """Sentences of a file with one word per line and a blank line between sentences.

    Columns are separated by tabs, or by white space where a line has no tab. In conllu files, comments, multiword tokens and empty
    nodes are skipped.

    Args:
        path: the file.
        format: "conll" or "conllu".
        columns: `{"words": number, "tags": number}`, from 1.
        labelled: whether every word must have a tag.

    Returns:
        A list of `TaggedWords`, each located at its first line.

    Raises:
        ValueError: a line lacks a column or has another number of columns than the first, or there is no word.
    """
    at = {**COLUMNS[format], **(columns or {})}
    for part, number in at.items():
        if part not in ("words", "tags") or not str(number).removeprefix("-").isdecimal() or int(number) == 0:
            raise ValueError(f"expected numbers of columns, from 1, for words and tags of {path}; got {part}={number}.")
    words_at, tags_at = (int(at[part]) for part in ("words", "tags"))
    found, sentence, width = [], [], None

    def close():
        if sentence:
            words, tags = zip(*((word, tag) for _, word, tag in sentence), strict=True)
            found.append(TaggedWords(words, None if None in tags else tags, where=location(path, sentence[0][0])))
            sentence.clear()

    for number, line in enumerate(read_lines(path), 1):
        if not line.strip() or line.startswith(_DOCUMENT):
            close()
            continue
        if format == "conllu" and line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        if width is None:
            width = len(cells), number
            _check_columns(cells, words_at, tags_at, labelled, location(path, number))
        if len(cells) != width[0]:
            raise ValueError(f"expected {width[0]} columns, as in line {width[1]}; {location(path, number)} has {len(cells)}.")
        if format == "conllu" and not cells[0].isdecimal():
            continue
        word = _cell(cells, words_at)
        # Where tags may be missing, their column may be too; a single column is that of the words.
        tag = _cell(cells, tags_at) if len(cells) >= max(abs(tags_at), 2) else None
        if not word or tag == "":
            raise ValueError(f"expected a word and its tag; one is empty in {location(path, number)}.")
        sentence.append((number, word, tag))
    close()
    if not found:
        raise ValueError(f"expected at least one sentence; {path} has no word.")
    return found


def _check_columns(cells, words_at, tags_at, labelled, where):
    if max(abs(words_at), abs(tags_at) if labelled else 0) > len(cells) or (labelled and len(cells) < 2):
        raise ValueError(f"expected words in column {words_at} and tags in column {tags_at}; {where} has {len(cells)} columns.")


def _cell(cells, number):
    return cells[number - 1 if number > 0 else number].strip()
