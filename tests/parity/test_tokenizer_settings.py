"""Folders with the settings of documented models: read by this package and by transformers, and written here, read there."""

import json
import unicodedata

import pytest
import tokenizer_settings
import transformers
from helpers import minilm, small_tokenizers
from helpers.hostile_inputs import PARTS
from tokenizer_settings import READ, REFUSED, Settings
from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from keras_bert_rebuild import load_tokenizer
from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files

PLACES = ("vocab.txt", "tokenizer.json")
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MPNET = ("<pad>", "[UNK]", "<s>", "</s>", "<mask>")

SENTENCES = [
    "안녕하세요 한국어 HELLO",
    "Ștefan și Ţară: Învăţătură ŞTIINŢĂ",
    "東京タワーは1958年に建てられた。カタカナ ﾊﾝｶｸ",
    "中国的首都是北京,2008年 ABC",
    "Straße ÖL Ähre café CAFÉ naïve",
    "İstanbul Iğdır ÇOCUK <İd>",
    "Привет Ёлка й שָׁלוֹם नमस्ते ไทย",
    "food foo FOO afoo foo's [E1] Obama [/E1] [e1] C++ c++ Ç++ C ++",
    " [E1]  foo \t C++\u3000x [/E1]foo [E1]foo",
    "the <mask> was [MASK] there </s> [SEP] <s>[CLS] and  <mask>",
    "1,204 and 2007",
    "foods, seafood",
]


def fits(char):
    """No characters that transformers drops and Google's algorithm retains."""
    return unicodedata.category(char) not in ("Cn", "Co", "Cs")


def texts():
    lines = minilm.TEXT.read_text(encoding="utf-8").split("\n")
    hostile = ["".join(filter(fits, part)) for part in PARTS]
    hostile += [f"{first}{second} {third}" for first, second, third in zip(hostile, hostile[7:], hostile[3:], strict=False)]
    orderly = [line for line in small_tokenizers.LINES if "Σ" not in line and len(line) < 300]
    return [line for line in lines if line] + SENTENCES + orderly + small_tokenizers.SENTENCES[:6] + hostile


TEXTS = texts()


def vocabulary(special):
    """Characters and words of the texts in every form that a setting produces, and pieces inside of words."""
    forms = set()
    for text in TEXTS:
        for form in (text, text.lower(), unicodedata.normalize("NFKC", text), unicodedata.normalize("NFKC", text).lower()):
            marks = unicodedata.normalize("NFD", form)
            forms |= {form, marks, "".join(char for char in marks if unicodedata.category(char) != "Mn")}
    characters = sorted({char for form in forms for char in form if char.isprintable() and not char.isspace()})
    words = sorted({word for form in forms for word in form.split() if 1 < len(word) < 20 and word not in special})[::2]
    return [*special, *characters, *(f"##{char}" for char in characters[::-1] if char != "q"), *words]


VOCABULARIES = {special: vocabulary(special) for special in (BERT, MPNET)}


def wordpiece_json(folder, settings, special=BERT, model=models.WordPiece, post=None):
    ids = {token: i for i, token in enumerate(VOCABULARIES[special])}
    tokenizer = Tokenizer(model(ids, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    cls, sep = special[2], special[3]
    tokenizer.post_processor = post or processors.TemplateProcessing(
        single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1", special_tokens=[(cls, 2), (sep, 3)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    write_json(folder, tokenizer, settings)


def write_json(folder, tokenizer, settings, pipeline=None):
    tokenizer.add_tokens([AddedToken(**token) for token in settings.added])
    values = json.loads(tokenizer.to_str()) | (settings.pipeline if pipeline is None else pipeline)
    (folder / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")


def roberta_json(folder, settings):
    tokenizer = small_tokenizers.byte_level_bpe(folder)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    write_json(folder, tokenizer, settings, {} if settings.pipeline is tokenizer_settings.GOOGLE else None)


def sentencepiece_json(folder, family, settings):
    from sentencepiece import sentencepiece_model_pb2

    kinds = {
        "albert": (transformers.AlbertTokenizer, ()),
        "xlm_roberta": (transformers.XLMRobertaTokenizer, ("<s>", "<pad>", "</s>", "<unk>")),
        "camembert": (
            transformers.CamembertTokenizer,
            ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"),
        ),
    }
    kind, front = kinds[family]
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(small_tokenizers.sentencepiece("albert" if family == "albert" else "xlm_roberta"))
    pieces = [(piece.piece, piece.score) for piece in model.pieces][3 if front else 0 :]
    behind = [("<mask>", 0.0)] if front else []
    vocab = [*((token, 0.0) for token in front), *pieces, *behind]
    charsmap = model.normalizer_spec.precompiled_charsmap
    kind(vocab=vocab, _spm_precompiled_charsmap=charsmap, **settings.tokenizer_config).save_pretrained(folder)


def write_folder(folder, settings):
    """The files of a model: its vocabulary and its settings."""
    for name, values in (
        ("tokenizer_config.json", settings.tokenizer_config),
        ("config.json", settings.config),
        ("special_tokens_map.json", settings.special_tokens_map),
    ):
        if values is not None:
            (folder / name).write_text(json.dumps(values), encoding="utf-8")
    for place in settings.files.split("+"):
        if place == "vocab.txt":
            (folder / place).write_text("".join(f"{token}\n" for token in VOCABULARIES[BERT]), encoding="utf-8")
        elif place == "tokenizer.json":
            wordpiece_json(folder, settings)
        elif place == "words":
            wordpiece_json(folder, settings, model=models.WordLevel)
        elif place == "mpnet":
            wordpiece_json(folder, settings, MPNET, post=processors.RobertaProcessing(("</s>", 3), ("<s>", 2), True, False))
        elif place == "roberta":
            small_tokenizers.byte_level_bpe(folder)
            (folder / "tokenizer.json").unlink()
        elif place == "roberta.json":
            roberta_json(folder, settings)
        else:
            sentencepiece_json(folder, place, settings)


def read_there(folder, settings):
    peer = transformers.AutoTokenizer.from_pretrained(folder, **settings.told)
    if "WordPiece" in type(peer.backend_tokenizer.model).__name__ and "vocab" in settings.files:
        peer.backend_tokenizer.model.max_input_chars_per_word = 200
    return peer


@pytest.fixture(params=READ, ids=lambda settings: settings.name)
def settings(request):
    return request.param


@pytest.fixture
def both(tmp_path, settings):
    write_folder(tmp_path, settings)
    if settings.name == "dmis-lab/biobert-v1.1":
        with pytest.warns(UserWarning, match="do not say whether the tokenizer is cased"):
            ours = load_tokenizer(tmp_path)
    else:
        ours = load_tokenizer(tmp_path)
    return ours, read_there(tmp_path, settings)


def differing(ours, theirs, **options):
    """Texts whose ids or offsets differ."""
    there = theirs(TEXTS, return_offsets_mapping=True)
    here = ours.encode_batch(TEXTS, return_offsets=True, special_tokens_in_text=True)
    mask = ours.tokens.get(ours.mask_id)
    found = []
    for text, ids, offsets, expected, places in zip(
        TEXTS, here.ids, here.offsets, there["input_ids"], there["offset_mapping"], strict=True
    ):
        if ids.tolist() != expected:
            found.append((text, ours.tokenize(text), theirs.convert_ids_to_tokens(expected)))
            continue
        # Our offsets of a token cover its own characters, not the space that it takes; for a space alone they are empty.
        strip = {*ours.added_tokens, mask, "Ġ"}
        pairs = [
            (ours.tokens[i], tuple(a), b)
            for i, a, b in zip(expected, offsets.tolist(), places, strict=True)
            if ours.tokens[i] not in strip
        ]
        # A text that starts with a space gets no prefix space, but transformers takes its space for one.
        got_space = not getattr(ours, "add_prefix_space", False) or not text.startswith(" ")
        found += [(text, token, a, b) for token, a, b in pairs if a != b and (a[1], got_space) != (b[1], False)][:1]
    return found


def test_ids_and_offsets_are_those_of_transformers(both):
    assert differing(*both) == []


def test_pairs_are_those_of_transformers(both, settings):
    ours, theirs = both
    firsts, seconds = TEXTS[:8], TEXTS[8:16]
    there = theirs(firsts, seconds, return_token_type_ids=True)
    here = ours.encode_batch(firsts, seconds, special_tokens_in_text=True)
    assert [row.tolist() for row in here.ids] == there["input_ids"]
    if settings.config.get("type_vocab_size") == 1:  # a model that has no row for the segment that transformers gives
        there["token_type_ids"] = [[0] * len(row) for row in there["token_type_ids"]]
    assert [row.tolist() for row in here.segments] == there["token_type_ids"]


def test_what_is_written_here_is_read_there_and_here(both, settings, tmp_path):
    ours, _theirs = both
    folder = tmp_path / "written"
    folder.mkdir()
    for name, content in vocabulary_files(ours, 512).items():
        (folder / name).write_bytes(content)
    (folder / "config.json").write_text(json.dumps(settings.config), encoding="utf-8")
    assert load_tokenizer(folder) == ours
    again = read_there(folder, Settings(settings.name, settings.files))
    assert differing(ours, again) == []


@pytest.mark.parametrize("settings", REFUSED, ids=lambda settings: settings.name)
def test_a_custom_tokenizer_program_is_refused(tmp_path, settings):
    write_folder(tmp_path, settings)
    with pytest.raises(ValueError, match="which has its own word-splitting code"):
        load_tokenizer(tmp_path)


# How transformers names what is cut, and what it is here; a single text is always cut in the same way.
CUT = {"longest_first": "halves", "only_first": "only_first", "only_second": "only_second"}
LONG = [text for text in TEXTS if 4 < len(text.split()) < 40][:24]
ROWS = ("sentence-transformers/all-MiniLM-L6-v2", "distilroberta-base", "albert-base-v2", "xlm-roberta-base", "digits apart")


def cut_rows(ours, theirs, max_len):
    """Rows here and there: ids, and the segments that reach a model that gets zeros if the tokenizer gives none."""
    for texts in ((LONG,), (LONG, LONG[::-1])):
        for there, here in CUT.items() if len(texts) == 2 else (("longest_first", "longest_first"),):
            try:
                found = ours.encode_batch(*texts, max_len=max_len, truncation=here, special_tokens_in_text=True)
            except ValueError:  # the other text leaves no room: transformers then returns rows that are too long
                continue
            expected = theirs(*texts, truncation=there, max_length=max_len)
            segments = expected.get("token_type_ids") or [[0] * len(ids) for ids in expected["input_ids"]]
            yield [row.tolist() for row in found.ids], expected["input_ids"]
            yield [row.tolist() for row in found.segments], segments
    if max_len > 7:
        found = ours.encode_batch(LONG, max_len=max_len, stride=2, special_tokens_in_text=True)
        expected = theirs(LONG, truncation=True, max_length=max_len, stride=2, return_overflowing_tokens=True)
        # Our windows are in the order of the text, theirs in the order in which they are cut.
        order = sorted(range(len(found.ids)), key=lambda row: (found.texts[row], row * (-1) ** (ours.truncation_side == "left")))
        yield [found.ids[row].tolist() for row in order], expected["input_ids"]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("place", ["tokenizer_config.json", "tokenizer.json", ""])
@pytest.mark.parametrize("segments", [True, False])
def test_rows_that_are_cut_and_their_segments_are_those_of_transformers(tmp_path, name, place, segments):
    settings = next(each for each in READ if each.name == name)
    names = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    changes = {"model_input_names": names} | ({"truncation_side": "left"} if place == "tokenizer_config.json" else {})
    if name in ("distilroberta-base", "xlm-roberta-base"):  # transformers gives them zeros, or none
        changes.pop("model_input_names")
    write_folder(tmp_path, settings._replace(tokenizer_config={**settings.tokenizer_config, **changes}))
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    if place == "tokenizer.json":
        path = tmp_path / "tokenizer.json"
        cut = {"direction": "Left", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation": cut}))
    ours, theirs = load_tokenizer(tmp_path), read_there(tmp_path, settings)
    assert theirs.truncation_side == ("left" if place else "right")
    for max_len in (5, 8, 13, 64, 120):
        for found, expected in cut_rows(ours, theirs, max_len):
            assert found == expected
