"""The progress of a run of `prepare`: what is on disk and what remains to be done."""

import contextlib
import json
import shutil
from dataclasses import dataclass

from keras_bert_rebuild.data.corpora.store_files import (
    COUNTS,
    FORMAT,
    VERSION,
    checked_record,
    is_intact,
    part_file,
    part_files,
    read_description,
    record_file,
    write_json,
)
from keras_bert_rebuild.files.durable import write_file
from keras_bert_rebuild.files.reading import parse_json, read_text

# The folder, inside a store, with the intermediate files of deduplication; removed when the store is finished.
STAGING = ".deduplicating"

# The part that a store is, of the format in which hosts once made parts of one: the only one.
WHOLE = (0, 1)
INDEX, PROGRESS = (part_file(stem, WHOLE) for stem in ("index", "progress"))


@dataclass(frozen=True)
class Prepared:
    """The result of a run of `prepare`."""

    counts: dict
    """Number of tokens, passages and documents and of `[UNK]` among the tokens."""

    shards: int
    """Number of shards."""

    made: int
    """How many of them this run wrote; the others were on disk already."""

    cased: bool
    """Whether the ids preserve case and accents."""

    notes: list
    """Messages for the user about text that was skipped or cut."""

    removed: dict | None = None
    """With `deduplicate`, what was removed: by unit ("documents", "passages") and kind ("exact", "near") the number of `texts` and
    `tokens`, and an `example`: the first text that was `removed` and the retained text that it repeats (`stays`)."""


class Preparation:
    """The progress of a folder of tokens, as far as it is on disk.

    Args:
        reader: a `CorpusReader`.
        output: path of the folder.
        settings: the settings that determine the bytes of the shards, a dictionary for JSON.
        vocabulary: the bytes of the vocabulary file.
        progress: called as `progress(file_bytes, text_bytes)`.
    """

    def __init__(self, reader, output, settings, vocabulary, progress):
        self.reader, self.output, self.settings = reader, output, settings
        self.vocabulary, self.progress = vocabulary, progress
        self.description = {"format": FORMAT, "version": VERSION, "part": list(WHOLE), "settings": settings}
        self.index = output / INDEX
        self.records = {}
        self.indexed = {}  # the shards listed in an existing index
        self.started = {}  # block number: (file bytes, text bytes)
        self.blocks = self.made = 0
        self.has_started = self.wrote_vocabulary = False

    def check_folder(self):
        """Check that the contents of the folder belong to a run with the same settings."""
        if not self.output.is_dir():
            return
        for path in part_files(self.output, "progress") + part_files(self.output, "index"):
            description = read_description(path)
            if description["version"] != VERSION:
                raise ValueError(
                    f"expected a separate folder for version {VERSION} of the format; {path} has version {description['version']}."
                )
            ours = {**self.settings, "parts": WHOLE[1]}
            for name, value in {**dict.fromkeys(ours), **description["settings"], "parts": description["part"][1]}.items():
                if ours.get(name) != value:
                    raise ValueError(
                        f"expected a separate folder for these settings; {self.output} has {name} {_shown(value)}, "
                        f"not {_shown(ours.get(name))}."
                    )
        copy = self.output / "vocab.txt"
        if copy.exists() and copy.read_bytes() != self.vocabulary:
            raise ValueError(f"expected a separate folder for this vocabulary; {copy} is a different one.")
        if self.index.exists():
            shards = read_description(self.index).get("shards")
            for record in shards if isinstance(shards, list) else []:
                self.indexed[checked_record(record, self.index)["number"]] = record

    def tasks(self):
        """Yield `(number, text, continues)` of every block that is missing on disk."""
        before = 0
        for block in self.reader.blocks():
            number, sizes = block.number, (block.file_bytes - before, block.text_bytes)
            before = block.file_bytes
            self.blocks = number + 1
            record = self._done(number)
            if record is not None:
                self.records[number] = record
                self.progress(sizes[0], 0)
                continue
            self.start()
            self.started[number] = sizes
            task = number, block.text, block.continues
            del block
            yield task
            del task  # free it before the next block is read

    def add(self, record):
        """Record that a shard is complete."""
        self.records[record["number"]] = record
        self.made += 1
        self.progress(*self.started.pop(record["number"]))

    def finish(self):
        """Write the index, and remove the progress files that it replaces."""
        self.start()
        records = [self.records[number] for number in sorted(self.records)]
        counts = {name: sum(record[name] for record in records) for name in COUNTS}
        if not counts["tokens"]:
            self._discard()
            raise ValueError(f"the corpus must have at least one word; {self.reader.path} has none.")
        left_out = {name: getattr(self.reader, name) for name in ("bad_lines", "cut_lines")}
        write_json(self.index, {**self.description, **counts, **left_out, "blocks": self.blocks, "shards": records})
        self._remove_progress(records)
        return Prepared(counts, len(records), self.made, self.settings["cased"], self.reader.notes())

    def finished(self):
        """The result, if the folder was finished with deduplication and is complete; else None."""
        records = [self.indexed[number] for number in sorted(self.indexed)]
        if not records or not all(is_intact(self.output, record) for record in records):
            return None
        index = read_description(self.index)
        notes, removed = index.get("notes"), index.get("removed")
        counts = {name: sum(record[name] for record in records) for name in COUNTS}
        if index.get("blocks") != len(records) or not isinstance(notes, list) or not _is_report(removed):
            return None
        self._remove_progress(records)
        return Prepared(counts, len(records), 0, self.settings["cased"], notes, removed)

    def finish_from(self, tokens, prepared, records, removed):
        """Write the index of shards made from those of another folder.

        Args:
            tokens: the other, finished folder.
            prepared: the `Prepared` of that folder.
            records: the records of the new shards.
            removed: the report of what was removed.
        """
        counts = {name: sum(record[name] for record in records) for name in COUNTS}
        before = read_description(tokens / INDEX)
        kept = {name: before[name] for name in ("bad_lines", "cut_lines", "blocks")}
        more = {"notes": prepared.notes, "removed": removed}
        write_json(self.index, {**self.description, **counts, **kept, **more, "shards": records})
        self._remove_progress(records)
        return Prepared(counts, len(records), len(records), prepared.cased, prepared.notes, removed)

    def _remove_progress(self, records):
        for record in records:
            (self.output / record_file(record["number"])).unlink(missing_ok=True)
        (self.output / PROGRESS).unlink(missing_ok=True)
        shutil.rmtree(self.output / STAGING, ignore_errors=True)

    def _done(self, number):
        """The record of a shard if it is complete on disk, else None."""
        path = self.output / record_file(number)
        record = self.indexed.get(number)
        if record is None and path.exists():
            try:
                record = checked_record(parse_json(read_text(path, "json_bytes", "JSON"), path), path)
            except ValueError:
                return None
        return record if record is not None and record["number"] == number and is_intact(self.output, record) else None

    def start(self):
        """Create the folder as soon as there is something to write."""
        progress, vocabulary = self.output / PROGRESS, self.output / "vocab.txt"
        if self.has_started and progress.exists() and vocabulary.exists():
            return
        self.output.mkdir(parents=True, exist_ok=True)
        self.check_folder()
        self.has_started = True
        if not progress.exists():
            write_json(progress, self.description)
        if not vocabulary.exists():
            write_file(vocabulary, lambda file: file.write(self.vocabulary), claimed=True)
            self.wrote_vocabulary = True

    def _discard(self):
        names = [name for record in self.records.values() for name in (*record["files"], record_file(record["number"]))]
        if self.wrote_vocabulary:  # otherwise it may belong to the user
            names.append("vocab.txt")
        for name in (*names, PROGRESS):
            (self.output / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder has other files
            self.output.rmdir()


def _is_report(removed):
    """Whether the index's record of removed texts is well-formed."""
    try:
        entries = [entry for kinds in removed.values() for entry in kinds.values()]
        whole = all(type(entry[name]) is int for entry in entries for name in ("texts", "tokens"))
        examples = [entry["example"] for entry in entries if "example" in entry]
        return whole and all(isinstance(example[name], str) for example in examples for name in ("removed", "stays"))
    except (KeyError, TypeError, AttributeError):
        return False


def _shown(value):
    return json.dumps(value, sort_keys=True)
