"""Texts to ids, tasks trained, used and saved, vectors of texts, and models for other runtimes."""

from pathlib import Path
from typing import assert_type

from keras_bert_rebuild import (
    AdamW,
    EmbeddingStream,
    LateInteractionEmbedder,
    MultipleChoice,
    QuestionAnswerer,
    Reranker,
    SentenceEmbedder,
    SparseEmbedder,
    TextClassifier,
    TokenClassifier,
    WarmupLinearDecay,
    WordPieceTokenizer,
    add_lora,
    export,
    finetune,
    freeze,
    from_pretrained,
    load_task,
    load_tokenizer,
    predict,
    save_lora,
)
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.recipes.finetuning.finetune import Finetuned
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings
from keras_bert_rebuild.text.segmented import align_labels
from keras_bert_rebuild.training.optimizers.path_patterns import layer_rates

tokenizer = WordPieceTokenizer({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "all": 4, "work": 5})
tokenizer = WordPieceTokenizer.from_pretrained("bert-base", cased=True)
encoding = tokenizer.encode_batch(["All work", "and a voice"], ["no play!", "echoed"], pad_to=16, return_offsets=True)
print(encoding.ids.shape, encoding.segments, encoding.offsets, encoding.inputs)
assert_type(tokenizer.decode(encoding.ids[0]), str)
assert_type(tokenizer.tokenize("all work"), list[str])
assert_type(len(tokenizer.add_tokens(["C++"])), int)

words = load_tokenizer("roberta-base").encode_batch([["all", "work"], ["no"]], is_pretokenized=True, pad_to="longest")
assert words.word_ids is not None
labels = align_labels(words.word_ids, [[1, 2], [3]])
print(labels.shape)
windows = tokenizer.encode_batch(["a long text"], max_len=128, stride=32, pad_to=[64, 128])


classifier = TextClassifier.from_encoder("bert-base", labels=["no", "yes"], seed=1, max_len=64)
assert_type(classifier, TextClassifier)
print(classifier(["a text"], pairs=["another"])[0].label)
examples = read_examples("train.tsv", "classification", columns={"text": 1, "label": "intent"})
encoded = classifier.encode(examples)
add_lora(classifier.model, 8)
print(freeze(classifier.model, ["^Embedding-"]).frozen)
schedule = WarmupLinearDecay(3e-5, 10, 100)
classifier.compile(AdamW(schedule, rate_multipliers=layer_rates(classifier.model, 0.9)), class_weights={"yes": 2.0})
classifier.model.fit(classifier.batches(encoded, batch_size=16, seed=0), epochs=3)
assert_type(classifier.scores(examples, classifier.predict_examples(examples)), dict[str, float])
save_lora(classifier.model, "adapters.safetensors")
classifier.save("run/model")

tagged = TokenClassifier(from_pretrained("tagger"))(["A text.", ["a", "list"]])[0]
answered = QuestionAnswerer(from_pretrained("answers"), no_answer_threshold=0.0)(["Who?"], "A text.")[0]
chosen = MultipleChoice(from_pretrained("choices"))(["It rains."], [["wet", "dry"]])[0]
print(tagged.entities, answered.text, chosen.index)
print(SentenceEmbedder(from_pretrained("encoder")).similarity(["a"], ["b"]).mean())
reranker = Reranker.from_encoder("encoder", objective="listwise", negatives=7)
print(reranker.scores_of([("a query", "a text")]).mean(), reranker.rank("a query", ["a text", "another"], top_k=1)[0].score)
splade = SparseEmbedder(from_pretrained("masked"), max_active=64)
ids, weights = splade(["a text"], prompt="query")[0]
print(ids.max(), weights.sum(), splade.tokens_of((ids, weights), 3)[0][0], splade.to_scipy(["a text"]).shape)
colbert = LateInteractionEmbedder.from_encoder("encoder", token_width=64, query_len=16)
print(next(colbert.documents(iter(["a text"]))).shape, colbert.scores_of("a query", ["a text"]).max())
print(load_task("run/model")(["a text"])[0].probability)

settings = FinetuneSettings(epochs=2, freeze=["^Embedding-"], class_weights={"yes": 2})
run = finetune("classification", "bert-base", "train.tsv", examples, "run", settings, report=print, lora_rank=8)
assert_type(run, Finetuned)
print(run.task(["a text"]), run.scores["accuracy"])
scores: dict[str, float] | None = predict("run/model", "new.txt", "answers.jsonl", progress=lambda done, rows: print(done / rows))
run = finetune("classification", "bert-base", [{"text": "a", "label": "x"}], output="run", callbacks=[], log_to="tensorboard")
rows: list[dict[str, object]] = predict(run.task, [{"id": 1, "text": "a"}])


encoder, own_tokenizer = from_pretrained("encoder", heads=[]), load_tokenizer("encoder")
stream = EmbeddingStream.from_model(encoder, own_tokenizer, poolings=["mean"], normalize=True, max_len=128)
print(stream(["a text"]).shape)
with open("texts.txt", encoding="utf-8") as lines:
    for vector in stream.stream(lines):
        print(vector.mean())

assert_type(export(encoder, own_tokenizer, "served/1"), Path)
export(encoder, "encoder", Path("int8"), "openvino_int8", poolings="mean", normalize=True, texts=["a text"] * 300)
