"""Engines that could hold an index of passages, on the same vectors: LanceDB, two embedded forms of Qdrant, Milvus Lite, and ours.

Command: python benchmarks/engines.py DATA --results R --folder F [--engine NAME ...] [--python ours=PYTHON] [--count N]
Time: on two idle cores some minutes for LanceDB, Qdrant's shard and ours with 200,000; the others with a smaller --count
Needs: lancedb, qdrant-client, qdrant-edge-py, pymilvus with milvus-lite; for ours lancedb and what this package needs. --python
gives engines other interpreters

DATA has vectors.f32, float32 `(passages, 384)` and nothing else, and passages.json, a list of their texts: 24,000 more than
--count. A stage is a process of its own, so that its peak of memory is its own: `build` adds the passages with number, text, year
and vector, 10,000 a call (ours all in one); `use` opens a copy, asks 20 queries one at a time, also with a filter, and 100 in a
batch, compares the ten best with NumPy's, and adds, updates and deletes 1,000; `readers` has two processes count and search while
a third adds ten times 100; `kill` kills processes within one call that adds 20,000, at parts of its time, and opens what is left,
and ours adds again and counts the texts that it embeds; `kinds` has 20,000 sparse vectors of 60 weights, 20,000 times four vectors
of tokens, 32 wide, and words. Seconds and milliseconds are those of the processor, in all threads, since machines are shared.
Results are printed and appended to R; existing ones are not run again.
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

STAGES = ("build", "use", "readers", "kill", "kinds")
WIDTH, QUERIES, ALONE, YEAR, STEP, ADDED = 384, 100, 20, 2000, 10_000, 20_000
VOCABULARY, WEIGHTS, TOKENS, TOKEN_WIDTH = 30_522, 60, 4, 32


@functools.cache
def passages(data):
    """The texts of a folder."""
    return json.loads((Path(data) / "passages.json").read_text())


def vectors_of(data, first, last):
    """Vectors of a folder, read and not mapped, so that they are not counted as memory twice."""
    place = {"offset": first * WIDTH * 4, "count": (last - first) * WIDTH}
    return np.fromfile(Path(data) / "vectors.f32", "float32", **place).reshape(-1, WIDTH)


def rows(job, first, last):
    """Passages by number, with their texts, years and vectors, which are of the kind of the job."""
    ids, rng, count = list(range(first, last)), np.random.default_rng([first, last]), last - first
    texts = [f"{number} {text}" for number, text in zip(ids, passages(job["data"])[first:last], strict=True)]
    if job["kind"] == "sparse":
        tokens = [np.sort(rng.choice(VOCABULARY, WEIGHTS, replace=False)) for _ in ids]
        vectors = list(zip(tokens, rng.random((count, WEIGHTS), "float32") + 0.1, strict=True))
    elif job["kind"] == "tokens":
        vectors = rng.standard_normal((count, TOKENS, TOKEN_WIDTH), "float32")
    else:
        vectors = None if job["kind"] == "none" else vectors_of(job["data"], first, last)
    return types.SimpleNamespace(ids=ids, texts=texts, years=[1900 + number * 7919 % 126 for number in ids], vectors=vectors)


class LanceDB:
    """A table; without an index of vectors every row is scored."""

    modules, kinds = ("lancedb",), ("tokens", "bm25")

    def __init__(self, folder, kind, data):
        import lancedb
        import pyarrow as pa

        self.pa, self.db, self.metric = pa, lancedb.connect(folder), "cosine" if kind == "tokens" else "dot"
        self.table = self.db.open_table("t") if "t" in self.db.table_names() else None

    def _rows(self, data):
        vectors = self.pa.FixedSizeListArray.from_arrays(data.vectors.reshape(-1), data.vectors.shape[-1])
        if data.vectors.ndim == 3:
            vectors = self.pa.ListArray.from_arrays(np.arange(len(data.ids) + 1, dtype="int32") * TOKENS, vectors)
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
        if len(queries) > 1 and queries.ndim == 3:
            return [self.search(query[None])[0] for query in queries]
        search = self.table.search(queries[0] if len(queries) == 1 else list(queries)).distance_type(self.metric).limit(10)
        search = search if year is None else search.where(f"year >= {year}", prefilter=True)
        found = search.select(["id", "_distance"]).to_arrow()
        owners = found["query_index"].to_numpy() if "query_index" in found.schema.names else np.zeros(len(found), int)
        return [found["id"].to_numpy()[owners == number].tolist() for number in range(len(queries))]

    def words(self, texts):
        from lancedb.query import MatchQuery

        if not self.table.list_indices():
            self.table.create_fts_index("text")
        return [self.table.search(MatchQuery(text, "text")).select(["id", "_score"]).limit(10).to_arrow() for text in texts]

    def count(self):
        self.table.checkout_latest()
        return self.table.count_rows()

    def close(self):
        pass


class QdrantEdge:
    """A shard without an index of vectors, which `optimize` would make."""

    modules, kinds = ("qdrant_edge",), ("sparse", "tokens", "bm25")

    def __init__(self, folder, kind, data):
        import qdrant_edge as q

        self.q, self.kind = q, kind
        several = q.MultiVectorConfig(q.MultiVectorComparator.MaxSim) if kind == "tokens" else None
        vectors = q.EdgeVectorParams(TOKEN_WIDTH if several else WIDTH, q.Distance.Dot, multivector_config=several)
        sparse = {"vector": q.EdgeSparseVectorParams()} if kind == "sparse" else None
        config = q.EdgeConfig(vectors={} if sparse else {"vector": vectors}, sparse_vectors=sparse)
        if Path(folder).exists():
            self.shard = q.EdgeShard.load(folder)
        else:
            Path(folder).mkdir()
            self.shard = q.EdgeShard.create(folder, config)

    def _vector(self, vector):
        return self.q.SparseVector(*(part.tolist() for part in vector)) if self.kind == "sparse" else vector.tolist()

    def add(self, data):
        points = [
            self.q.Point(number, {"vector": self._vector(vector)}, {"text": text, "year": year})
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
        asked = [q.QueryRequest(10, query=q.Query.Nearest(self._vector(v), "vector"), filter=where, params=exact) for v in queries]
        return [[point.id for point in found] for found in self.shard.query_batch(q.QueryBatchRequest(asked))]

    def words(self, texts):
        q = self.q
        if "text" not in self.shard.info().payload_schema:
            self.shard.update(q.UpdateOperation.create_field_index("text", q.TextIndexParams(scoring=True)))
        return [self.shard.query(q.QueryRequest(10, query=q.TextQuery("text", text))) for text in texts]

    def count(self):
        return self.shard.count(self.q.CountRequest())

    def close(self):
        self.shard.close()


class QdrantLocal:
    """qdrant-client on a folder: a model of the server in Python and SQLite."""

    modules, kinds = ("qdrant_client",), ("sparse", "tokens")

    def __init__(self, folder, kind, data):
        from qdrant_client import QdrantClient, models

        self.m, self.kind, self.client = models, kind, QdrantClient(path=folder)
        if not self.client.collection_exists("t"):
            several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM) if kind == "tokens" else None
            size = TOKEN_WIDTH if several else WIDTH
            vectors = {"vector": models.VectorParams(size=size, distance=models.Distance.DOT, multivector_config=several)}
            sparse = {"vector": models.SparseVectorParams()} if kind == "sparse" else None
            self.client.create_collection("t", {} if sparse else vectors, sparse_vectors_config=sparse)

    def _vector(self, vector):
        if self.kind == "sparse":
            return self.m.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())
        return vector.tolist()

    def add(self, data):
        points = [
            self.m.PointStruct(id=number, vector={"vector": self._vector(vector)}, payload={"text": text, "year": year})
            for number, text, year, vector in zip(data.ids, data.texts, data.years, data.vectors, strict=True)
        ]
        self.client.upsert("t", points)

    update = add

    def delete(self, ids):
        self.client.delete("t", ids)

    def search(self, queries, year=None):
        m = self.m
        where = year and m.Filter(must=[m.FieldCondition(key="year", range=m.Range(gte=year))])
        asked = [m.QueryRequest(query=self._vector(v), using="vector", filter=where, limit=10) for v in queries]
        return [[point.id for point in found.points] for found in self.client.query_batch_points("t", asked)]

    def count(self):
        return self.client.count("t").count

    def close(self):
        self.client.close()


class MilvusLite:
    """A collection with a flat index, behind a server in a thread of this process."""

    modules, kinds = ("pymilvus",), ("sparse", "bm25")

    def __init__(self, folder, kind, data):
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self.kind, self.client = kind, MilvusClient(folder)
        if not self.client.has_collection("t"):
            schema = MilvusClient.create_schema(auto_id=False)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("text", DataType.VARCHAR, max_length=65535, enable_analyzer=kind == "bm25")
            schema.add_field("year", DataType.INT64)
            if kind == "vector":
                schema.add_field("vector", DataType.FLOAT_VECTOR, dim=WIDTH)
            else:
                schema.add_field("vector", DataType.SPARSE_FLOAT_VECTOR)
            if kind == "bm25":
                function = FunctionType.BM25
                schema.add_function(Function("b", function, input_field_names=["text"], output_field_names=["vector"]))
            indexes = MilvusClient.prepare_index_params()
            index = "FLAT" if kind == "vector" else "SPARSE_INVERTED_INDEX"
            indexes.add_index("vector", index_type=index, metric_type="BM25" if kind == "bm25" else "IP")
            self.client.create_collection("t", schema=schema, index_params=indexes)
        self.client.load_collection("t")

    def _vector(self, vector):
        return dict(zip(*(part.tolist() for part in vector), strict=True)) if self.kind == "sparse" else vector.tolist()

    def _rows(self, data):
        for number, text, year, vector in zip(data.ids, data.texts, data.years, data.vectors, strict=True):
            yield {"id": number, "text": text, "year": year} | ({} if self.kind == "bm25" else {"vector": self._vector(vector)})

    def add(self, data):
        self.client.insert("t", list(self._rows(data)))

    def update(self, data):
        self.client.upsert("t", list(self._rows(data)))

    def delete(self, ids):
        self.client.delete("t", ids=ids)

    def search(self, queries, year=None):
        asked = list(queries) if self.kind == "bm25" else [self._vector(vector) for vector in queries]
        where = "" if year is None else f"year >= {year}"
        return [[each["id"] for each in found] for found in self.client.search("t", asked, where, 10, anns_field="vector")]

    words = search

    def count(self):
        return self.client.query("t", output_fields=["count(*)"])[0]["count(*)"]

    def close(self):
        self.client.close()


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

    modules, kinds = ("keras_bert_rebuild.search.index", "lancedb"), ("bm25",)

    def __init__(self, folder, kind, data):
        from keras_bert_rebuild.search.index import Index

        self.retriever = Given(data)
        self.index = Index.open(folder, self.retriever if kind == "vector" else None)

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

    def words(self, texts):
        return self.index.search(texts, 10, by="bm25")

    def count(self):
        self.index.refresh()
        return len(self.index)

    def close(self):
        pass


ENGINES = {"lancedb": LanceDB, "qdrant-edge": QdrantEdge, "qdrant-local": QdrantLocal, "milvus-lite": MilvusLite, "ours": Ours}


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
    step, kind = (count, "none") if job["engine"] == "ours" else (STEP, "vector")
    for first in range(0, count, step):
        data = rows(job | {"kind": kind}, first, min(first + step, count))
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
    return {
        f"reader {i}": (errors if failed else output).strip().splitlines()[-1] for i, (output, errors, failed) in enumerate(ends)
    }


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


def kinds(job, opened, count):
    """Other kinds of vectors, and words: seconds to add 20,000, milliseconds a query."""
    facts = {}
    for kind in ENGINES[job["engine"]].kinds:
        engine, data = opened(job["folder"].replace("copy", kind), kind), rows(job | {"kind": kind}, 0, ADDED)
        asked, ask = (data.texts, engine.words) if kind == "bm25" else (data.vectors, engine.search)
        seconds = timed(engine.add, data)[1] + timed(ask, asked[:1])[1]
        facts[kind] = {"add s": seconds, "ms": one_by_one(ask, asked[:: ADDED // ALONE])[1]}
        engine.close()
    return facts


def work(job):
    """A stage in this process; prints its result."""
    kind = ENGINES[job["engine"]]
    for name in kind.modules:
        importlib.import_module(name)
    facts = globals()[job["stage"]](job, lambda folder=job["folder"], of="vector": kind(folder, of, job["data"]), job["count"])
    print(json.dumps(facts, default=str), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with vectors.f32 and passages.json")
    parser.add_argument("--results", type=Path, help="a file of JSON lines")
    parser.add_argument("--folder", type=Path, help="where the databases are made")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=[*ENGINES], metavar="NAME", help="some of the engines")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=STAGES, metavar="NAME", help="some of the stages")
    parser.add_argument("--count", type=int, default=200_000, help="passages (200,000)")
    parser.add_argument(
        "--python", nargs="+", default=[], metavar="NAME=PYTHON", help="interpreters of engines, otherwise this one"
    )
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
            job = {"engine": engine, "stage": stage, "count": args.count, "kind": "vector"}
            job |= {"data": str(args.data), "folder": str(folder)}
            command = [pythons.get(engine, sys.executable), __file__, "--work", json.dumps(job)]
            row = {"engine": engine, "stage": stage, "count": args.count, **result_of(command, environment("jax", 2))}
            print(json.dumps(results.keep(row)), flush=True)


if __name__ == "__main__":
    main()
