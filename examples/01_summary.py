"""The rows of BERT-base, and where its 109,705,010 parameters are.

Command: python examples/01_summary.py
Time: 10 seconds
Expected output: the table of 112 layers, then

    embeddings           23,436,288
    attention            28,366,848
    feed-forward         56,687,616
    heads                 1,214,258
    together            109,705,010
"""

from keras_bert_rebuild import get_model, print_summary
from keras_bert_rebuild.explain.summary import summary_rows

KINDS = {"Embedding": "embeddings", "Attention": "attention", "FeedForward": "feed-forward"}


def main():
    model = get_model(token_num=30000, dropout_rate=0.05)
    print_summary(model)
    totals = dict.fromkeys([*KINDS.values(), "heads"], 0)
    for row in summary_rows(model):
        totals[next((kind for word, kind in KINDS.items() if word in row.name), "heads")] += row.params
    print()
    for kind, params in (*totals.items(), ("together", sum(totals.values()))):
        print(f"    {kind:<16} {params:>14,}")


if __name__ == "__main__":
    main()
