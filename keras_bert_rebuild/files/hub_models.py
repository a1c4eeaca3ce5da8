"""Models of the hub that this library reads and that many people use, by repository."""

from typing import NamedTuple


class HubModel(NamedTuple):
    """What is known of a model before it is downloaded."""

    family: str
    parameters: int
    """In millions."""

    megabytes: int
    """Of the files that are downloaded, about."""

    languages: str
    licence: str
    use: str
    """What it is good for."""


PRETRAINED, VECTORS, RERANKING = "to fine-tune", "vectors of sentences", "reranking"

# The short name of a model is the part behind the slash.
MODELS = {
    "google-bert/bert-base-uncased": HubModel("bert", 110, 440, "English", "apache-2.0", PRETRAINED),
    "google-bert/bert-base-cased": HubModel("bert", 108, 436, "English", "apache-2.0", PRETRAINED),
    "google-bert/bert-large-uncased": HubModel("bert", 335, 1340, "English", "apache-2.0", PRETRAINED),
    "google-bert/bert-base-multilingual-cased": HubModel("bert", 178, 714, "104 languages", "apache-2.0", PRETRAINED),
    "distilbert/distilbert-base-uncased": HubModel("distilbert", 67, 268, "English", "apache-2.0", PRETRAINED),
    "FacebookAI/roberta-base": HubModel("roberta", 125, 499, "English", "mit", PRETRAINED),
    "FacebookAI/roberta-large": HubModel("roberta", 355, 1422, "English", "mit", PRETRAINED),
    "FacebookAI/xlm-roberta-base": HubModel("xlm-roberta", 278, 1116, "100 languages", "mit", PRETRAINED),
    "albert/albert-base-v2": HubModel("albert", 12, 47, "English", "apache-2.0", PRETRAINED),
    "google/electra-small-discriminator": HubModel("electra", 14, 54, "English", "apache-2.0", PRETRAINED),
    "google/electra-base-discriminator": HubModel("electra", 109, 440, "English", "apache-2.0", PRETRAINED),
    "microsoft/deberta-v3-small": HubModel("deberta-v2", 141, 286, "English", "mit", PRETRAINED),
    "microsoft/deberta-v3-base": HubModel("deberta-v2", 184, 371, "English", "mit", PRETRAINED),
    "xlnet/xlnet-base-cased": HubModel("xlnet", 117, 467, "English", "mit", PRETRAINED),
    "answerdotai/ModernBERT-base": HubModel("modernbert", 149, 599, "English", "apache-2.0", PRETRAINED),
    "answerdotai/ModernBERT-large": HubModel("modernbert", 395, 1583, "English", "apache-2.0", PRETRAINED),
    "sentence-transformers/all-MiniLM-L6-v2": HubModel("bert", 23, 91, "English", "apache-2.0", VECTORS),
    "BAAI/bge-small-en-v1.5": HubModel("bert", 33, 133, "English", "mit", VECTORS),
    "BAAI/bge-base-en-v1.5": HubModel("bert", 109, 438, "English", "mit", VECTORS),
    "intfloat/e5-base-v2": HubModel("bert", 109, 438, "English", "mit", VECTORS),
    "intfloat/multilingual-e5-small": HubModel("bert", 118, 471, "94 languages", "mit", VECTORS),
    "nomic-ai/nomic-embed-text-v1.5": HubModel("nomic_bert", 137, 547, "English", "apache-2.0", VECTORS),
    "Alibaba-NLP/gte-base-en-v1.5": HubModel("gte", 137, 547, "English", "apache-2.0", VECTORS),
    "Snowflake/snowflake-arctic-embed-m-v2.0": HubModel("gte", 305, 1221, "74 languages", "apache-2.0", VECTORS),
    "naver/splade-cocondenser-ensembledistil": HubModel("bert", 110, 438, "English", "cc-by-nc-sa-4.0", "sparse vectors"),
    "colbert-ir/colbertv2.0": HubModel("bert", 110, 438, "English", "mit", "a vector for every token"),
    "cross-encoder/ms-marco-MiniLM-L6-v2": HubModel("bert", 23, 91, "English", "apache-2.0", RERANKING),
}
