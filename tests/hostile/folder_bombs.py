"""Handmade attacks on the samples of `folders.py`."""

import base64
import json

import h5py
import numpy as np


def with_json(change):
    """A change of the value in a JSON file."""

    def write(folder, file, mark):
        path = folder / file
        value = json.loads(path.read_text())
        found = change(value)
        path.write_text(json.dumps(value if found is None else found))

    return write


def setting(value, *keys):
    """Another value at a place in a JSON file."""

    def change(values):
        for key in keys[:-1]:
            values = values[key]
        values[keys[-1]] = value

    return with_json(change)


def text(make):
    """Another content of a file."""

    def write(folder, file, mark):
        (folder / file).write_text(make() if callable(make) else make, encoding="utf-8", errors="surrogatepass")

    return write


def normalizers(*rules):
    return setting({"type": "Sequence", "normalizers": list(rules)}, "normalizer")


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def added(count, letters, **flags):
    usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)

    def change(values):
        first = 1000
        values["added_tokens"] += [{"id": first + i, "content": f"{i}".ljust(letters, "x"), **usual, **flags} for i in range(count)]

    return with_json(change)


def layers(change):
    """A change of the layers in the architecture of an .h5 file of Keras 2."""

    def write(folder, file, mark):
        with h5py.File(folder / file, "a") as opened:
            config = json.loads(opened.attrs["model_config"])
            change(config["config"]["layers"], mark)
            opened.attrs["model_config"] = json.dumps(config)

    return write


def changed_config(number, **values):
    return layers(lambda found, mark: found[number]["config"].update(values))


def embedding_rows(rows):
    def change(found, mark):
        for layer in found:
            for name in ("input_dim", "output_dim"):
                if name in layer["config"]:
                    layer["config"][name] = rows

    return layers(change)


def lambda_layer(found, mark):
    code = {"class_name": "__lambda__", "config": {"value": ["4wAAAA==", None, None]}}
    found[-1] |= {"class_name": "Lambda", "config": {"name": found[-1]["name"], "function": code}}


def foreign_layer(found, mark):
    inner = {"module": "os", "class_name": "system", "config": {"command": f"touch {mark}"}, "registered_name": None}
    found[-1]["config"]["kernel_initializer"] = inner


def own_nesting(found, mark):
    """Models in models, a hundred deep."""
    inner = found[-1]["config"]
    for _ in range(100):
        inner = {
            "name": "m",
            "layers": [{"class_name": "Model", "name": "m", "config": inner}],
            "input_layers": [],
            "output_layers": [],
        }
    found[-1]["config"] = inner


def many_documents():
    """Short documents, one of which has the longest id that is admitted."""
    return "".join(f"{i}\ta\n" for i in range(150_000)) + "\U0001f642" * 512 + "\ta\n"


def wide_table():
    return f"step,{','.join(f'probe_{i}_a' for i in range(50_000))}\n" + "1," * 50_001


def changed_layer(number, **values):
    return layers(lambda found, mark: found[number].update(values))


def modules(kind, count):
    return with_json(lambda found: [found[0], *({"idx": i, "name": str(i), "path": "", "type": kind} for i in range(1, count))])


def of_modules(**changes):
    return with_json(lambda found: found[-1].update(changes))


NORMALIZE = "sentence_transformers.models.Normalize"
GROWING = [replace("a", "a" * 10)] * 6
EVIL = "(a+)+(a+)+(a+)+$"
SCRIPT = "<script>alert(1)</script>"
HEAD = "step,loss,probe_x_accuracy\n"
SIZES = "sizes:\n- model: tiny\ntraining:\n"
ARCHITECTURE = "config.json"
ST = "config_sentence_transformers.json"

# Name: the sample, its file that is changed, by a pattern, and how.
FOLDER_BOMBS = {
    "ids-long": ("retrieval", "corpus.tsv", text(many_documents)),
    "module-path-number": ("folder_embedding", "modules.json", of_modules(path=7)),
    "module-path-outside": ("folder_embedding", "modules.json", of_modules(path="../../..")),
    "module-path-list": ("folder_late_interaction", "modules.json", of_modules(path=[])),
    "module-type-number": ("folder_embedding", "modules.json", of_modules(type=1)),
    "module-type-system": ("folder_embedding", "modules.json", of_modules(type="os.system")),
    "modules-1200": ("folder_embedding", "modules.json", modules(NORMALIZE, 1200)),
    "modules-late-1200": ("folder_late_interaction", "modules.json", modules(NORMALIZE, 1200)),
    "modules-object": ("folder_sparse_embedding", "modules.json", text("{}")),
    "dense-bias": ("folder_embedding", "2_Dense/config.json", setting(None, "bias")),
    "dense-width": ("folder_embedding", "2_Dense/config.json", setting(10**12, "out_features")),
    "dense-activation": ("folder_embedding", "2_Dense/config.json", setting("os.system", "activation_function")),
    "dense-activation-list": ("folder_late_interaction", "1_Dense/config.json", setting(["a"], "activation_function")),
    "pooling-width": ("folder_embedding", "1_Pooling/config.json", setting("many", "word_embedding_dimension")),
    "pooling-list": ("folder_embedding", "1_Pooling/config.json", text("[1, 2]")),
    **{
        f"architectures-{i}-{sample}": (sample, ARCHITECTURE, setting(value, "architectures"))
        for sample in ("folder_embedding", "folder_reranking", "folder_stanford", "task_reranking")
        for i, value in enumerate((-1, {"a": 1}, [None], "BertModel"))
    },
    "prompts-number": ("folder_embedding", ST, setting(3, "prompts")),
    "prompts-values": ("folder_sparse_embedding", ST, setting({"query": 3}, "prompts")),
    "pylate-skip": ("folder_pylate", ST, setting(5, "skiplist_words")),
    "pylate-length": ("folder_pylate", ST, setting(10**9, "query_length")),
    "pylate-prefix": ("folder_pylate", ST, setting(["a"], "query_prefix")),
    "stanford-length": ("folder_stanford", "artifact.metadata", setting(10**12, "doc_maxlen")),
    "stanford-token": ("folder_stanford", "artifact.metadata", setting(["a"], "query_token_id")),
    "stanford-width": ("folder_stanford", "artifact.metadata", setting(10**12, "dim")),
    "task-kind-list": ("task_embedding", "task.json", setting([], "task")),
    "task-other-kind": ("task_question_answering", "task.json", setting("reranking", "task")),
    "task-length": ("task_question_answering", "task.json", setting(10**12, "max_len")),
    "task-length-late": ("task_late_interaction", "task.json", setting(10**12, "query_len")),
    "task-best": ("task_question_answering", "task.json", setting(10**12, "best")),
    "task-skip": ("task_late_interaction", "task.json", setting(["a b" * 100_000] * 9, "skiplist_words")),
    "charsmap-short": ("pipeline_rules", "tokenizer.json", normalizers({"type": "Precompiled", "precompiled_charsmap": "AAAA"})),
    "charsmap-empty": ("pipeline_rules", "tokenizer.json", normalizers({"type": "Precompiled", "precompiled_charsmap": ""})),
    "charsmap-list": ("pipeline_rules", "tokenizer.json", normalizers({"type": "Precompiled", "precompiled_charsmap": [1]})),
    **{
        f"charsmap-random-{i}": (
            "pipeline_rules",
            "tokenizer.json",
            normalizers({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(head + body).decode()}),
        )
        for i, (head, body) in enumerate(
            (
                (b"\x10\0\0\0", bytes(range(16)) + b"ab\0"),
                (b"\x10\0\0\0", b"\xff" * 16 + b"ab\0"),
                (b"\xff\xff\xff\x7f", b"ab\0"),
                (b"\x04\0\0\0", b"\0\0\0\x80"),
                (b"\x00\x04\0\0", np.random.default_rng(3).bytes(2048)),
            )
        )
    },
    "replace-growing": ("pipeline_rules", "tokenizer.json", normalizers(*GROWING)),
    "replace-doubling": ("pipeline_rules", "tokenizer.json", normalizers(*[replace("a", "aa")] * 40)),
    "replace-long": ("pipeline_rules", "tokenizer.json", normalizers(replace("a", "a" * 5_000_000))),
    "replace-empty": ("pipeline_rules", "tokenizer.json", normalizers(*[replace("", "aaaaaaaaaa")] * 7)),
    "replace-evil": ("pipeline_rules", "tokenizer.json", normalizers(replace(EVIL, "b", "Regex"))),
    "replace-nested": ("pipeline_rules", "tokenizer.json", normalizers(replace("(" * 5000 + ")" * 5000, "b", "Regex"))),
    "replace-repeated": ("pipeline_rules", "tokenizer.json", normalizers(replace("((a{1,100}){1,100}){1,100}", "b", "Regex"))),
    "replace-broken": ("pipeline_rules", "tokenizer.json", normalizers(replace("(", "b", "Regex"))),
    "prepend-long": ("pipeline_rules", "tokenizer.json", normalizers(*[{"type": "Prepend", "prepend": "a" * 100_000}] * 50)),
    "normalizers-many": ("pipeline_rules", "tokenizer.json", normalizers(*[{"type": "NFKC"}] * 100_000)),
    "split-evil": (
        "pipeline_rules",
        "tokenizer.json",
        setting(
            {"type": "Split", "pattern": {"Regex": "(a+)+$|(a|aa)+b"}, "behavior": "Isolated", "invert": False}, "pre_tokenizer"
        ),
    ),
    "split-nothing": (
        "pipeline_rules",
        "tokenizer.json",
        setting({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False}, "pre_tokenizer"),
    ),
    "pretokenizers-many": (
        "pipeline_rules",
        "tokenizer.json",
        setting({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 30}, "pre_tokenizer"),
    ),
    **{
        f"id-{identity}-{sample}": (sample, "tokenizer.json", setting(identity, "model", "vocab", "rare"))
        for sample in ("pipeline_rules", "pipeline_gemma", "wordpiece", "bpe")
        for identity in (300_000_000, 2**31 - 1, 2**32 - 1)
    },
    "id-unigram": ("pipeline_unigram", "tokenizer.json", setting(2**40, "model", "unk_id")),
    "id-added": ("pipeline_rules", "tokenizer.json", with_json(lambda values: values["added_tokens"][-1].update(id=2**31 - 1))),
    "ids-equal": ("pipeline_rules", "tokenizer.json", with_json(lambda values: dict.__setitem__(values["model"]["vocab"], "x", 5))),
    "ids-holes": (
        "pipeline_rules",
        "tokenizer.json",
        with_json(lambda values: values["model"]["vocab"].update({f"z{i}": i * 50_000 for i in range(1, 20)})),
    ),
    "added-9999": ("pipeline_rules", "tokenizer.json", added(9_999, 1_000)),
    "added-normalized": ("pipeline_rules", "tokenizer.json", added(9_999, 1_000, normalized=True)),
    "added-empty": ("pipeline_rules", "tokenizer.json", with_json(lambda values: values["added_tokens"][-1].update(content=""))),
    "added-wordpiece": ("wordpiece", "tokenizer.json", added(9_999, 1_000)),
    "merges-number": ("pipeline_gemma", "tokenizer.json", setting([1, 2], "model", "merges")),
    "merges-long": ("pipeline_gemma", "tokenizer.json", setting(["a " + "b" * 3_000_000], "model", "merges")),
    "prefix-long": ("wordpiece", "tokenizer.json", setting("#" * 3_000_000, "model", "continuing_subword_prefix")),
    "template-loop": (
        "pipeline_rules",
        "tokenizer.json",
        setting(
            {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 20_000,
                "pair": [{"Sequence": {"id": "B", "type_id": 2**31}}],
                "special_tokens": {},
            },
            "post_processor",
        ),
    ),
    "truncation-zero": ("pipeline_rules", "tokenizer.json", setting({"max_length": 0, "stride": 10**9}, "truncation")),
    "padding-fixed": (
        "pipeline_rules",
        "tokenizer.json",
        setting(
            {
                "strategy": {"Fixed": 2**33},
                "direction": "Right",
                "pad_to_multiple_of": 0,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            },
            "padding",
        ),
    ),
    **{
        f"grade-{name}": ("retrieval", "trec.qrels", text(f"q1 0 d2 {grade}\nq1 0 d3 1\n"))
        for name, grade in (("2^63", 2**63), ("2^64", 2**64), ("10^400", 10**400), ("digits", "9" * 5000), ("negative", -(2**63)))
    },
    "grade-large": ("retrieval", "trec.qrels", text(f"q1 0 d2 {2**62}\nq1 0 d3 {2**62}\nq1 0 d4 3\n")),
    "grade-beir": ("retrieval", "beir.tsv", text(f"query-id\tcorpus-id\tscore\nq1\td2\t{2**63}\n")),
    "score-inf": ("retrieval", "made.run", text("q1 Q0 d2 1 inf n\nq1 Q0 d3 2 -inf n\nq1 Q0 d4 1 1e999 n\n")),
    **{
        f"recipe-{i}": ("recipe", "recipe.yaml", text(content))
        for i, content in enumerate(
            (
                "sizes: [{model: null}]\n",
                "sizes: [{model: tiny}]\ntraining: {objective: {}}\n",
                "sizes: [{model: [1]}]\ntraining: {}\n",
                "sizes: [{model: {hidden_size: 1e400}}]\n",
                f"{SIZES}  phases: 7\n",
                f"{SIZES}  phases: [[1]]\n",
                f"{SIZES}  phases: [{{steps: -1, batch_size: 8, seq_len: 32}}]\n",
                f"{SIZES}  phases: [{{steps: .inf, batch_size: 8, seq_len: 32}}]\n",
                f"{SIZES}  schedule: {{}}\n",
                f"{SIZES}  1: 2\n",
                "sizes: [{model: tiny, 3: 4}]\n",
                "? [1]\n: 2\n",
                "[]\n",
                "- 1\n",
            )
        )
    },
    "metrics-script": ("run", "metrics.csv", text(f"step,loss,probe_x{SCRIPT}_accuracy\n1,2,0.5\n2,1,0.6\n")),
    "metrics-attribute": ("run", "metrics.csv", text('step,"probe_a""/><image href=\'x\' onerror=\'alert(1)\'/>_b"\n1,2\n2,3\n')),
    "metrics-cdata": ("run", "metrics.csv", text("step,probe_</text>]]><svg onload='alert(1)'/>_b\n1,2\n2,3\n")),
    "metrics-control": ("run", "metrics.csv", text("step,probe_\x0b\x1b\x00_b\n1,2\n2,3\n")),
    "metrics-surrogate": ("run", "metrics.csv", text("step,probe_\ud800_b\n1,2\n2,3\n")),
    "metrics-field": ("run", "metrics.csv", text(f"{HEAD}1,2,{'1' * 200_000}\n")),
    "metrics-quote": ("run", "metrics.csv", text(f'{HEAD}1,2,"0.5\n2,3,4\n')),
    "metrics-extreme": ("run", "metrics.csv", text(f"{HEAD}1,1e308,0.5\n2,-1e308,0.5\n")),
    "metrics-tiny": ("run", "metrics.csv", text(f"{HEAD}1,5e-324,0.5\n2,1e-323,0.5\n")),
    "metrics-steps": ("run", "metrics.csv", text(f"{HEAD}1e308,1,0.5\n-1e308,2,0.5\n")),
    "metrics-step": ("run", "metrics.csv", text(f"{HEAD},1,0.5\nnan,2,0.5\n")),
    "metrics-wide": ("run", "metrics.csv", text(wide_table)),
    "metrics-twice": ("run", "metrics.csv", text("step,loss,loss,step\n1,2,3,4\n2,3,4,5\n")),
    "probes-script": (
        "run",
        "probes.yaml",
        with_json(lambda values: values["probes"][0].update(name=SCRIPT, column=f"probe_{SCRIPT}_b", majority=1e308)),
    ),
    **{
        f"attribution-{i}": ("attribution", "attribution.json", setting(value, *keys))
        for i, (value, *keys) in enumerate(
            (
                (SCRIPT, "target"),
                (SCRIPT, "name"),
                (SCRIPT, "words", 0, "word"),
                (SCRIPT, "tokens", 0, "token"),
                ([SCRIPT], "texts"),
                (10**9, "tokens", 0, "row"),
                (10**9, "words", 0, "text"),
                (10**12, "words", 0, "end"),
                (-5, "words", 0, "start"),
                (float("nan"), "words", 0, "score"),
                ("0.5", "words", 0, "score"),
                (None, "tokens", 0, "score"),
                (10**400, "value"),
                ({}, "words"),
                ([1], "words"),
                (None, "texts"),
                ("the cat", "texts"),
                ([3], "texts"),
                ([1], "settings"),
                ("</style><img src=x onerror=alert(1)>", "settings", "steps"),
                ("evil", "further"),
            )
        )
    },
    "attribution-list": ("attribution", "attribution.json", text("[]")),
    "attribution-null": ("attribution", "attribution.json", text("null")),
    "keras_2-units": ("keras_2", "model.h5", changed_config(-1, units=10**12)),
    "keras_2-units-negative": ("keras_2", "model.h5", changed_config(-1, units=-1)),
    "keras_2-units-text": ("keras_2", "model.h5", changed_config(-1, units="many")),
    "keras_2-rows": ("keras_2", "model.h5", embedding_rows(400_000_000_000)),
    "keras_2-rows-some": ("keras_2", "model.h5", embedding_rows(20_000)),
    "keras_2-rows-nested": ("keras_2", "nested.h5", layers(lambda found, mark: found[2]["config"]["layers"][2]["config"].update(
        input_dim=10**12, output_dim=4
    ))),
    "keras_2-lambda": ("keras_2", "model.h5", layers(lambda_layer)),
    "keras_2-foreign": ("keras_2", "model.h5", layers(foreign_layer)),
    "keras_2-nested": ("keras_2", "nested.h5", layers(own_nesting)),
    "keras_2-shape": ("keras_2", "model.h5", changed_config(0, batch_input_shape=[None, 10**12])),
    "keras_2-calls": ("keras_2", "nested.h5", changed_layer(-1, inbound_nodes=[[["model_1", 10**9, 0, {}]]])),
    "keras_2-own-call": (
        "keras_2",
        "model.h5",
        layers(lambda found, mark: found[-1].update(inbound_nodes=[[[found[-1]["name"], 0, 0, {}]]])),
    ),
    "keras_2-activation": ("keras_2", "model.h5", changed_config(-1, activation={"a": 1})),
}  # fmt: skip
