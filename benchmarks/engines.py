"""Engines that could hold an index of passages, on the same vectors: LanceDB, Qdrant's embedded shard, and our `Index`.

Command: python benchmarks/engines.py DATA --results R --folder F [--engine NAME ...] [--python ours=PYTHON] [--count N]
Time: on two idle cores some minutes with 200,000 passages
Needs: lancedb, qdrant-edge-py; for ours lancedb and what this package needs. --python gives engines other interpreters

DATA has vectors.f32, float32 `(passages, 384)` and nothing else, and passages.json, a list of their texts: 24,000 more than
--count. A stage is a process of its own, so that its peak of memory is its own: `build` adds the passages with number, text, year
and vector, 10,000 a call (ours all in one); `use` opens a copy, asks 20 queries one at a time, also with a filter, and 100 in a
batch, compares the ten best with NumPy's, and adds, updates and deletes 1,000; `readers` has two processes count and search while
a third adds ten times 100; `kill` kills processes within one call that adds 20,000, at parts of its time, and opens what is left,
and ours adds again and counts the texts that it embeds. Seconds and milliseconds are those of the processor, in all threads, since
machines are shared. Results are printed and appended to R; existing ones are not run again.
"""

import argparse
import functools
import importlib
import json
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
from workers import Results, environment, result_of

STAGES = ("build", "use", "readers", "kill")
WIDTH, QUERIES, ALONE, YEAR, STEP, ADDED = 384, 100, 20, 2000, 10_000, 20_000


@functools.cache
def passages(data):
    """The texts of a folder."""
    return json.loads((Path(data) / "passages.json").read_text())


def vectors_of(data, first, last):
    """Vectors of a folder, read and not mapped, so that they are not counted as memory twice."""
    place = {"offset": first * WIDTH * 4, "count": (last - first) * WIDTH}
    return np.fromfile(Path(data) / "vectors.f32", "float32", **place).reshape(-1, WIDTH)


def rows(job, first, last, with_vectors=True):
    """Passages by number, with their texts, years and vectors."""
    ids = list(range(first, last))
    texts = [f"{number} {text}" for number, text in zip(ids, passages(job["data"])[first:last], strict=True)]
    vectors = vectors_of(job["data"], first, last) if with_vectors else None
    return types.SimpleNamespace(ids=ids, texts=texts, years=[1900 + number * 7919 % 126 for number in ids], vectors=vectors)


class LanceDB:
    """A table; without an index of vectors every row is scored."""

    modules = ("lancedb",)

    def __init__(self, folder, data):
        import lancedb
        import pyarrow as pa

        self.pa, self.db = pa, lancedb.connect(folder)
        self.table = self.db.open_table("t") if "t" in self.db.table_names() else None

    def _rows(self, data):
        vectors = self.pa.FixedSizeListArray.from_arrays(data.vectors.reshape(-1), data.vectors.shape[-1])
        return self.pa.table({"id": data.ids, "text": data.texts, "year": data.years, "vector": vectors})

    def add(self, data):
        if self.table is None:
            self.table = self.db.create_table("t", self._rows(data))
        else:
            self.table.add(self._rows(data))

    def update(self, data):
        self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(self._rows(data))

    def delete(self, ids):
        self.table.delete(f"id in ({', '.join(map(str, ids))})")

    def search(self, queries, year=None):
        search = self.table.search(queries[0] if len(queries) == 1 else list(queries)).distance_type("dot").limit(10)
        search = search if year is None else search.where(f"year >= {year}", prefilter=True)
        found = search.select(["id", "_distance"]).to_arrow()
        owners = found["query_index"].to_numpy() if "query_index" in found.schema.names else np.zeros(len(found), int)
        return [found["id"].to_numpy()[owners == number].tolist() for number in range(len(queries))]

    def count(self):
        self.table.checkout_latest()
        return self.table.count_rows()

    def close(self):
        pass


class QdrantEdge:
    """A shard without an index of vectors, which `optimize` would make."""

    modules = ("qdrant_edge",)

    def __init__(self, folder, data):
        import qdrant_edge as q

        self.q = q
        if Path(folder).exists():
            self.shard = q.EdgeShard.load(folder)
        else:
            Path(folder).mkdir()
            config = q.EdgeConfig({"vector": q.EdgeVectorParams(WIDTH, q.Distance.Dot)})
            self.shard = q.EdgeShard.create(folder, config)

    def add(self, data):
        points = [
            self.q.Point(number, {"vector": vector.tolist()}, {"text": text, "year": year})
            for number, text, year, vector in zip(data.ids, data.texts, data.years, data.vectors, strict=True)
        ]
        self.shard.update(self.q.UpdateOperation.upsert_points(points))
        self.shard.flush()

    update = add

    def delete(self, ids):
        self.shard.update(self.q.UpdateOperation.delete_points(ids))
        self.shard.flush()

    def search(self, queries, year=None):
        q = self.q
        where = year and q.Filter(must=[q.FieldCondition("year", range=q.RangeFloat(gte=year))])
        exact = q.SearchParams(exact=True)
        asked = [q.QueryRequest(10, query=q.Query.Nearest(v.tolist(), "vector"), filter=where, params=exact) for v in queries]
        return [[point.id for point in found] for found in self.shard.query_batch(q.QueryBatchRequest(asked))]

    def count(self):
        return self.shard.count(self.q.CountRequest())

    def close(self):
        self.shard.close()


class Given:
    """A retriever whose vectors are those of the folder; it counts the texts that it is asked for."""

    vectors, width, seen = "dense", WIDTH, 0

    def __init__(self, data):
        self.data = data

    def documents(self, texts):
        for text in texts:
            self.seen += 1
            number = int(text.split(maxsplit=1)[0])
            yield vectors_of(self.data, number, number + 1)[0]

    def description(self):
        return {"name": "given"}


class Ours:
    """An index of this package, which is a table of LanceDB."""

    modules = ("keras_bert_rebuild.search.index", "lancedb")

    def __init__(self, folder, data):
        from keras_bert_rebuild.search.index import Index

        self.retriever = Given(data)
        self.index = Index.open(folder, self.retriever)

    def _documents(self, data):
        for number, text, year in zip(data.ids, data.texts, data.years, strict=True):
            yield {"id": number, "text": text, "year": year}

    def add(self, data):
        self.index.add(self._documents(data))

    def update(self, data):
        self.index.update(self._documents(data))

    def delete(self, ids):
        self.index.delete(ids)

    def search(self, queries, year=None, approximate=False):
        where = None if year is None else f"year >= {year}"
        found = self.index.search_vectors(list(queries), 10, filter=where, approximate=approximate)
        return [list(ranking.ids) for ranking in found]

    def count(self):
        self.index.refresh()
        return len(self.index)

    def close(self):
        pass


ENGINES = {"lancedb": LanceDB, "qdrant-edge": QdrantEdge, "ours": Ours}


def timed(function, *values, **options):
    """The result of a function, and how many seconds of the processor it took, in all threads."""
    started = time.process_time()
    result = function(*values, **options)
    return result, round(time.process_time() - started, 3)


def memory(name="VmHWM"):
    """The largest resident set of this process so far, MB; "VmRSS" for the one of now."""
    return next(int(line.split()[1]) >> 10 for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))


def disk(folder):
    """The size of a database, MB."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) >> 20


def build(job, opened, count):
    """Add all passages."""
    engine, before, seconds = opened(), memory("VmRSS"), 0
    ours = job["engine"] == "ours"
    step = count if ours else STEP
    for first in range(0, count, step):
        data = rows(job, first, min(first + step, count), with_vectors=not ours)
        seconds += timed(engine.add, data)[1]
    seconds += timed(engine.close)[1]
    return {"s": seconds, "peak MB": memory(), "before MB": before, "disk MB": disk(job["folder"])}


def exact(job, queries, count, year=0):
    """The numbers of the ten best passages for each query, best first."""
    scores, ids = np.zeros((len(queries), 0), "float32"), np.zeros((len(queries), 0), int)
    for first in range(0, count, STEP):
        part = rows(job, first, min(first + STEP, count))
        chosen = np.flatnonzero(np.array(part.years) >= year)
        scores = np.concatenate([scores, queries @ part.vectors[chosen].T], 1)
        ids = np.concatenate([ids, np.tile(np.array(part.ids)[chosen], (len(queries), 1))], 1)
        best = np.argsort(-scores, 1)[:, :10]
        scores, ids = np.take_along_axis(scores, best, 1), np.take_along_axis(ids, best, 1)
    return ids


def recall(found, wanted):
    """The share of the wanted that is found."""
    return round(float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, wanted.tolist(), strict=True)])), 4)


def one_by_one(ask, queries, *values, **options):
    """The answers to queries, asked one at a time, and milliseconds for each."""
    answers, seconds = timed(lambda: [ask(queries[i : i + 1], *values, **options)[0] for i in range(len(queries))])
    return answers, round(seconds / len(queries) * 1e3, 2)


def use(job, opened, count):
    """Open and search; add, update and delete 1,000."""
    queries = rows(job, count + 24_000 - QUERIES, count + 24_000).vectors
    engine, seconds = timed(opened)
    facts = {"open s": seconds, "first ms": timed(engine.search, queries[:1])[1] * 1e3}
    few = queries[:ALONE]
    (one, facts["one ms"]), (batch, seconds) = one_by_one(engine.search, few), timed(engine.search, queries)
    where, facts["filter ms"] = one_by_one(engine.search, few, YEAR)
    facts |= {"batch ms": round(seconds / QUERIES * 1e3, 2), "peak MB": memory()}
    wanted = exact(job, queries, count)
    facts |= {"equal": recall(one, wanted[:ALONE]), "batch equal": recall(batch, wanted)}
    facts["filter equal"] = recall(where, exact(job, few, count, YEAR))
    if job["engine"] == "ours":
        facts["index s"] = timed(engine.index.index_vectors)[1]
        near, facts["approximate ms"] = one_by_one(engine.search, queries, approximate=True)
        facts["recall"] = recall(near, wanted)
    facts["add s"] = timed(engine.add, rows(job, count, count + 1000))[1]
    data = rows(job, count + 1000, count + 2000)
    data.ids = list(range(1000))
    facts |= {"update s": timed(engine.update, data)[1], "delete s": timed(engine.delete, list(range(1000, 2000)))[1]}
    right = engine.count() == count and engine.search(data.vectors[:1])[0][0] == 0
    engine.close()
    return facts | {"changes right": right, "peak MB at the end": memory(), "disk MB": disk(job["folder"])}


def child(job, **changes):
    """Another process for a stage, which has opened the database, or failed to."""
    command = [sys.executable, __file__, "--work", json.dumps(job | changes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def readers(job, opened, count):
    """What two other processes see while this one adds ten times 100."""
    engine = opened()
    others = [child(job, stage="read") for _ in range(2)]
    for first in range(count, count + 1000, 100):
        engine.add(rows(job, first, first + 100))
        time.sleep(0.3)
    engine.close()
    ends = [(*other.communicate(), other.returncode) for other in others]
    return {"readers": [(errors if failed else output).strip().splitlines()[-1] for output, errors, failed in ends]}


def read(job, opened, count):
    """Count and search until all are there, or for 40 seconds."""
    engine, query, seen, right, until = opened(), rows(job, 0, 1).vectors, [], 0, time.time() + 40
    print("opened", flush=True)
    while time.time() < until and (not seen or max(seen) < 1000):
        seen.append(engine.count() - count)
        right += engine.search(query)[0][0] == 0
    return {"counts": sorted({*seen}), "searches": len(seen), "right": int(right)}


def adding(job, opened, count):
    """One call that adds 20,000."""
    engine, data = opened(), rows(job, count, count + ADDED)
    print("opened", flush=True)
    return {"s": timed(engine.add, data)[1]}


def kill(job, opened, count):
    """Kill processes within one call that adds 20,000, each on a copy, and open what is left."""
    facts, data = {}, rows(job, count, count + ADDED)
    for part in (0, 1 / 3, 2 / 3, 0.9):
        copy = job["folder"].replace("copy", f"killed{len(facts)}")
        shutil.copytree(job["folder"], copy)
        if not part:
            engine = opened(copy)
            started = time.perf_counter()
            engine.add(data)
            facts["whole s"] = time.perf_counter() - started
            engine.close()
            continue
        process = child(job, stage="adding", folder=copy)
        time.sleep(part * facts["whole s"])
        process.kill()
        process.wait()
        engine = opened(copy)
        left = [engine.count() - count, engine.search(rows(job, 0, 1).vectors)[0][0] == 0]
        if job["engine"] == "ours":
            left += [timed(engine.add, data)[1], engine.retriever.seen, engine.count() - count]
        facts[f"killed at {part:.2f}"] = left
        engine.close()
    return facts


def work(job):
    """A stage in this process; prints its result."""
    engine = ENGINES[job["engine"]]
    for name in engine.modules:
        importlib.import_module(name)
    facts = globals()[job["stage"]](job, lambda folder=job["folder"]: engine(folder, job["data"]), job["count"])
    print(json.dumps(facts, default=str), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with vectors.f32 and passages.json")
    parser.add_argument("--results", type=Path, help="a file of JSON lines")
    parser.add_argument("--folder", type=Path, help="where the databases are made")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=[*ENGINES], metavar="NAME", help="some of the engines")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=STAGES, metavar="NAME", help="some of the stages")
    parser.add_argument("--count", type=int, default=200_000, help="passages (200,000)")
    parser.add_argument("--python", nargs="+", default=[], metavar="NAME=PYTHON", help="their interpreters, otherwise this one")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(json.loads(args.work))
        return
    results, pythons = Results(args.results), dict(each.split("=") for each in args.python)
    for engine in args.engine:
        for stage in args.stage:
            if results.has(engine=engine, stage=stage, count=args.count):
                continue
            built = args.folder / f"{engine}-{args.count}.db"
            folder = built if stage == "build" else built.with_name(f"{engine}-copy.db")
            for other in args.folder.glob(f"{engine}-[a-z]*.db"):
                shutil.rmtree(other)
            if stage != "build":
                shutil.copytree(built, folder)
            job = {"engine": engine, "stage": stage, "count": args.count}
            job |= {"data": str(args.data), "folder": str(folder)}
            command = [pythons.get(engine, sys.executable), __file__, "--work", json.dumps(job)]
            row = {"engine": engine, "stage": stage, "count": args.count, **result_of(command, environment("jax", 2))}
            print(json.dumps(results.keep(row)), flush=True)


if __name__ == "__main__":
    main()
