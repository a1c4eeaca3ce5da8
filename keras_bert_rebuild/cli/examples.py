"""Command lines for the end of every help, without the name of the command; the inputs are those of the tutorial."""

EXAMPLES = {
    "demo": ("demo", "demo --minutes 10 --corpus books"),
    "vocab": ("vocab corpus.txt --vocab-size 8000 --output vocab.txt",),
    "prepare": (
        "prepare corpus.txt --tokenizer vocab.txt --output tokens",
        "prepare corpus --tokenizer bert-base-uncased --output tokens --deduplicate near",
    ),
    "pretrain": (
        "pretrain tokens --model tiny --output run --steps 1000",
        "pretrain tokens --init bert-base-uncased --output run --learning-rate 5e-5 --steps 1000",
        "pretrain corpus.txt --recipe modern --minutes 60",
    ),
    "distill": ("distill tokens --teacher bert-base-uncased --num-hidden-layers 6 --output student --steps 1000",),
    "finetune": (
        "finetune classification --model bert-base-uncased --train train.tsv --dev dev.tsv --output run",
        "finetune retrieval --model bert-base-uncased --train pairs.tsv --dev dev.tsv --output run --max-seq-length 128",
    ),
    "predict": ("predict --model run --input test.tsv --output predictions.jsonl",),
    "curves": ("curves run --output curves.svg",),
    "prune": ("prune --model run --amount 0.3 --dev dev.tsv --test test.tsv --output pruned",),
    "plan": (
        "plan --model base --tpu v5e:4x4 --batch-size 1024",
        "plan --model base --gpu h100 --gpus 8 --tokens 100e9 --format json",
    ),
    "convert": ("convert --model bert-base-uncased --output bert-keras --format keras",),
    "embed": (
        "embed sentences.txt --model all-MiniLM-L6-v2 --output vectors.npy",
        "embed sentences.txt --model bert-base-uncased --pooling mean --normalize --output vectors.parquet",
    ),
    "index": ("index corpus.jsonl --model all-MiniLM-L6-v2 --output index",),
    "search": (
        'search index "who wrote Hamlet" --top-k 3',
        "search index --queries queries.jsonl --qrels qrels.tsv --output ranking.tsv",
    ),
    "mine": ("mine pairs.tsv --corpus index --model all-MiniLM-L6-v2 --output groups.jsonl --negatives 7",),
    "export": (
        "export --model run/model --output served/1",
        "export --model all-MiniLM-L6-v2 --output openvino --format openvino_int8 --calibrate sentences.txt",
    ),
    "inspect": ("inspect --model bert-base-uncased", "inspect --model bert_model.ckpt --format json"),
    "explain": (
        "explain --model bert-base-uncased --batch-size 8 --max-seq-length 128",
        "explain --model bert-base-uncased --other modernbert-base",
        "explain --model bert-base-uncased --names huggingface",
    ),
    "explain-text": ('explain-text "a boat on the river" --model splade',),
    "lens": (
        'lens "the boat sat by the [MASK] ." --model bert-base-uncased',
        'lens "the boat sat by the river ." --model bert-base-uncased --output lens.html',
    ),
    "probe": (
        "probe --model bert-base-uncased --train train.tsv --dev dev.tsv",
        "probe --model bert-base-uncased --train train.conll --dev dev.conll --output curve.svg",
    ),
    "why": (
        'why "a warm and funny film" --model run',
        'why "a warm and funny film" --model run --method integrated-gradients shapley --output why.html',
    ),
    "attention": (
        'attention "the boat sat by the river" --model bert-base-uncased --output attention.html',
        'attention "the boat sat" --model before --other after --output both.html',
    ),
}
