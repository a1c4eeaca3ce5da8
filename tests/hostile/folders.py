"""Further good samples: tasks and retrievers as folders, tokenizer pipelines, judgements, recipes, runs, attributions."""

import json
import shutil

import numpy as np
import yaml
from helpers import small_tokenizers
from helpers.small_checkpoints import write_classifier
from helpers.small_tasks import TOKENIZER, VOCABULARY, small_encoder

from keras_bert_rebuild.export.tokenizer_files import sentencepiece_pipeline
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule
from keras_bert_rebuild.tasks.registry import task_class, task_kinds
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

OF_TASK = {
    "token_classification": {"labels": ["O", "B-PER", "I-PER"]},
    "late_interaction": {"token_width": 8},
    "embedding": {"modules": [DenseModule(np.ones((16, 8), "float32"), np.ones(8, "float32"), "tanh")]},
}
RETRIEVERS = ("embedding", "reranking", "late_interaction", "sparse_embedding")
OF_RETRIEVER = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "config.json")
PIPELINES = ("pipeline_gemma", "pipeline_rules", "pipeline_unigram", "pipeline_bytes")

# Name of a sample: the action on its folder, and the files in it that are changed, by patterns.
FOLDERS = {
    **{f"task_{kind}": ("answer", ("task.json", "task.json", "config.json")) for kind in task_kinds() if kind != "classification"},
    **{f"folder_{kind}": ("answer", (*OF_RETRIEVER, *("[123]_*/*",) * (kind != "reranking"))) for kind in RETRIEVERS},
    "folder_pylate": ("answer", ("config_sentence_transformers.json", "1_Dense/config.json", "modules.json")),
    "folder_stanford": ("answer", ("artifact.metadata", "config.json", "model.safetensors")),
    **dict.fromkeys(PIPELINES, ("tokenize", ("tokenizer.json",))),
    "retrieval": (
        "retrieval",
        (
            *("trec.qrels", "beir.tsv", "made.run", "queries.jsonl", "queries.tsv"),
            *("corpus.jsonl", "corpus.json", "corpus.csv", "corpus.tsv", "corpus.trec"),
        ),
    ),
    "recipe": ("recipe", ("recipe.yaml", "phases.yaml")),
    "run": ("curves", ("metrics.csv", "metrics.csv", "probes.yaml")),
    "attribution": ("attribution", ("attribution.json",)),
    "keras_2": ("keras_2", ("model.h5", "nested.h5")),
}


def write_folders(folder):
    """Write every sample of `FOLDERS` into its folder, which exists."""
    for kind in task_kinds():
        heads = ("mlm",) if kind == "sparse_embedding" else ("pooler",)
        if kind != "classification":
            task = task_class(kind).from_encoder(small_encoder(heads), TOKENIZER, **OF_TASK.get(kind, {}))
            task.save(folder / "saved" / kind)
            shutil.copytree(folder / "saved" / kind, folder / f"task_{kind}", dirs_exist_ok=True)
    for kind in RETRIEVERS:
        shutil.copytree(folder / "saved" / kind, folder / f"folder_{kind}", dirs_exist_ok=True)
        (folder / f"folder_{kind}" / "task.json").unlink()
    _write_colberts(folder, folder / "saved" / "late_interaction")
    for name in PIPELINES:
        (folder / name / "tokenizer.json").write_text(json.dumps(_pipeline(name)))
    _write_tables(folder)
    write_classifier(folder / "keras_2" / "model.h5", optimizer="Adam")
    write_classifier(folder / "keras_2" / "nested.h5", nested=True)


def _write_colberts(folder, saved):
    pylate = folder / "folder_pylate"
    shutil.copytree(saved, pylate, dirs_exist_ok=True)
    for name in ("task.json", "2_Normalize", "3_MultiVectorMask"):
        shutil.rmtree(pylate / name) if (pylate / name).is_dir() else (pylate / name).unlink()
    kinds = (("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense"))
    modules = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(kinds)]
    (pylate / "modules.json").write_text(json.dumps(modules))
    settings = {"model_type": "ColBERT", "query_prefix": "", "document_prefix": "", "query_length": 12, "document_length": 16}
    settings |= {"do_query_expansion": True, "attend_to_expansion_tokens": False, "skiplist_words": [".", ","]}
    (pylate / "config_sentence_transformers.json").write_text(json.dumps(settings))
    from safetensors.numpy import load_file, save_file

    stanford = folder / "folder_stanford"
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(saved / name, stanford)
    config = json.loads((saved / "config.json").read_text())
    (stanford / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    arrays = {f"bert.{name.removeprefix('bert.')}": array for name, array in load_file(saved / "model.safetensors").items()}
    save_file({**arrays, **load_file(saved / "1_Dense" / "model.safetensors")}, stanford / "model.safetensors")
    settings = {"query_maxlen": 12, "doc_maxlen": 16, "dim": 8, "similarity": "l2", "query_token_id": "un", "doc_token_id": "##s"}
    (stanford / "artifact.metadata").write_text(json.dumps(settings))


def _pipeline(name):
    """The values of a tokenizer.json that only a pipeline can follow."""
    if name == "pipeline_gemma":
        return json.loads(small_tokenizers.gemmas().to_str())
    if name == "pipeline_unigram":  # with a charsmap
        albert = SentencePieceTokenizer(small_tokenizers.sentencepiece("albert"), "albert")
        return json.loads(sentencepiece_pipeline(albert).to_str())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": i, "content": VOCABULARY[i], "special": True, **flags} for i in range(5)]
    ends = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    values = {"version": "1.0", "added_tokens": added, "post_processor": ends}
    vocabulary = {token: i for i, token in enumerate(VOCABULARY)}
    if name == "pipeline_bytes":
        bytes_ = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}
        values["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, bytes_]}
        vocabulary |= {f"Ġ{word}": 100 + i for i, word in enumerate(VOCABULARY[5:])}
    else:
        steps = (
            {"type": "WhitespaceSplit"},
            {"type": "Digits", "individual_digits": True},
            {"type": "CharDelimiterSplit", "delimiter": "_"},
        )
        split = {"type": "Split", "pattern": {"Regex": "[.,;]"}, "behavior": "Isolated", "invert": False}
        values["pre_tokenizer"] = {
            "type": "Sequence",
            "pretokenizers": [*steps, split, {"type": "Punctuation", "behavior": "Isolated"}],
        }
    rules = [{"type": kind} for kind in ("NFKC", "Lowercase", "StripAccents")]
    rules += [{"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "Prepend", "prepend": " "}]
    values["normalizer"] = {"type": "Sequence", "normalizers": rules}
    return {**values, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}}


def _write_tables(folder):
    place = folder / "retrieval"
    (place / "trec.qrels").write_text("".join(f"q{i} 0 d{i + j} {j}\n" for i in range(4) for j in range(3)))
    rows = "".join(f"q{i}\td{i}\t{i % 3}\n" for i in range(9))
    (place / "beir.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (place / "made.run").write_text("".join(f"q{i} Q0 d{i + j} {j + 1} {9.5 - j} name\n" for i in range(4) for j in range(5)))
    texts = [{"_id": f"d{i}", "title": "a title", "text": f"the cat sat {i}"} for i in range(9)]
    (place / "corpus.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    (place / "corpus.tsv").write_text("".join(f"{text['_id']}\t{text['text']}\t{text['title']}\n" for text in texts))
    (place / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": f"who sat {i}"}) + "\n" for i in range(9)))
    rows = [{"id": f"d{i}", "text": f"the cat {i} sat", "year": 1900 + i} for i in range(9)]
    (place / "corpus.json").write_text(json.dumps(rows))
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    (place / "corpus.csv").write_text("".join(f"{line}\n" for line in lines))
    documents = (f"<DOC>\n<DOCNO>{row['id']}</DOCNO>\n<TEXT>\n{row['text']}\n</TEXT>\n</DOC>\n" for row in rows)
    (place / "corpus.trec").write_text("".join(documents))
    (place / "queries.tsv").write_text("".join(f"q{i}\twho sat {i}\n" for i in range(9)))
    model = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    training = {
        "objective": "mlm",
        "optimizer": "adamw",
        "learning_rate": 0.001,
        "batch_size": 4,
        "seq_len": 32,
        "masking": "token",
    }
    training |= {"mask_rate": 0.15, "schedule": "linear", "warmup_fraction": 0.01}
    sizes = [{"model": model}, {"model": "tiny", "batch_size": 8}]
    _write_yaml(folder / "recipe" / "recipe.yaml", vocab_size=300, tokens_per_parameter=7, sizes=sizes, training=training)
    phases = [{"steps": steps, "batch_size": 8, "seq_len": length} for steps, length in ((90, 32), (10, 64))]
    training = {"objective": "mlm", "next_sentence": "nsp", "phases": phases}
    _write_yaml(folder / "recipe" / "phases.yaml", vocab_size=300, sizes=[{"model": "tiny"}], training=training)
    head = "step,epoch,loss,held_out_loss,learning_rate,probe_mood_accuracy\n"
    (folder / "run" / "metrics.csv").write_text(
        head + "".join(f"{i},1,{9 - i / 9:.3f},{9 - i / 8:.3f},0.001,0.{i}\n" for i in range(1, 9))
    )
    baselines = [{"name": "mood", "column": "probe_mood_accuracy", "majority": 0.3, "bag_of_words": 0.5, "start": 0.4}]
    (folder / "run" / "probes.yaml").write_text(json.dumps({"step": 0, "probes": baselines}))
    word = {"text": 0, "word": "cat", "start": 4, "end": 7, "score": 0.5, "error": None}
    tokens = [{"row": 0, "token": "cat", "text": 0, "start": 4, "end": 7, "score": 0.5}]
    values = {
        "texts": ["the cat"],
        "words": [word],
        "tokens": tokens,
        "target": "logit of cat",
        "method": "occlusion",
        "value": 1.0,
    }
    values |= {"value_at_baseline": 0.5, "gap": 0.0, "baseline": "mask", "settings": {"steps": 8}, "name": "model"}
    (folder / "attribution" / "attribution.json").write_text(json.dumps(values))


def _write_yaml(path, **values):
    path.write_text(yaml.safe_dump(values, sort_keys=False))
