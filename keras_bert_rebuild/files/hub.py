"""Models by their name on the Hugging Face hub: the files that a model needs, and the folder in which they are.

The package huggingface_hub downloads: its cache and token and the environment variables HF_HUB_OFFLINE, HF_ENDPOINT, HF_HOME and
HF_TOKEN are honoured, and a download that broke off resumes. Nothing is downloaded unless a name was given, and nothing of a
repository is executed.
"""

import difflib
import functools
import hashlib
import os
import re
import tomllib
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

# A repository, or one of the short names; and what may stand behind it.
NAME = re.compile(r"([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@([\w./-]+))?")

# Models that many people use, by repository, with family, parameters, megabytes, languages, licence and use. The command line reads
# this file, too.
MODELS = tomllib.loads((resources.files("keras_bert_rebuild.files") / "hub_models.toml").read_text(encoding="utf-8"))
SHORT_NAMES = {repository.partition("/")[2]: repository for repository in MODELS}
# From what people call a model to its short name, for the answer to a mistake.
MEANT_NAMES = {word: name for name, repository in SHORT_NAMES.items() for word in MODELS[repository]["called"]}

# The folders of modules in a folder of sentence-transformers, such as 1_Pooling.
MODULE = re.compile(r"\d+_\w+")

# What is read besides weights: the card, of which the licence and languages go into those of models made from this one; settings;
# and the files of tokenizers.
CARD = "README.md"
SETTINGS = (
    *("config.json", "bert_config.json", "albert_config.json", "xlnet_config.json", "task.json", "artifact.metadata"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "adapter_config.json"),
)
TOKENIZERS = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"),
    *("vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model"),
)
# Patterns of weights in order of preference: what the first that fits anything names is read.
WEIGHTS = (
    r"model\.safetensors",
    r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?",
    r"pytorch_model\.bin",
    r"pytorch_model(-\d+-of-\d+)?\.bin(\.index\.json)?",
    r"tf_model\.h5",
    r".*\.ckpt(-\d+)?\.(index|data-\d+-of-\d+)",
    r"[^/]*\.keras",
)


# How often a download is begun, the first time and after the connection broke off.
ATTEMPTS = 3


class Origin(NamedTuple):
    """Where the files of a folder come from."""

    repository: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repository}@{self.commit[:12]}"


def origin_of(path: str | os.PathLike[str]) -> Origin | None:
    """The repository and the commit of a file or folder in the hub's cache; None for any other."""
    parts = Path(path).parts
    for i, part in enumerate(parts[:-2]):
        if part.startswith("models--") and parts[i + 1] == "snapshots":
            return Origin(part.removeprefix("models--").replace("--", "/"), parts[i + 2])
    return None


def located(
    model: str | os.PathLike[str],
    revision: str | None = None,
    *,
    weights: bool = True,
    check_config: Callable[[Path], object] | None = None,
) -> Path:
    """The path of a model: the one given, or the folder into which the files of a model of the hub are downloaded.

    Args:
        model: the path of a file or folder; or a name such as "google-bert/bert-base-uncased" or "bert-base-uncased" that is not
            the path of anything, with "@" and a revision behind it if `revision` is None.
        revision: a branch, tag or commit of the repository; None for its main branch.
        weights: whether weights are needed, or the files of the tokenizer alone.
        check_config: called with the path of the config.json before any weights are downloaded; may raise an error.

    Returns:
        The path. Paths that do not exist are returned as they are.

    Raises:
        ValueError: there is no such model, it needs a permission, the hub cannot be reached, or a file is not what the hub says.
    """
    named = named_repository(model, revision)
    if named is not None:
        return _downloaded(*named, weights, check_config)
    if os.fspath(model) in SHORT_NAMES:
        warnings.warn(f"{model} is the file or folder of this name here, not that of the hub.", stacklevel=3)
    return Path(model)


def named_repository(model: str | os.PathLike[str], revision: str | None = None) -> tuple[str, str | None] | None:
    """The repository and the revision that a name means; None for a path. Asks nobody.

    Args:
        model, revision: as for `located`.

    Raises:
        ValueError: there is a revision for a path, or two; or a short name is misspelled.
    """
    match = NAME.fullmatch(os.fspath(model))
    name, behind = match.groups() if match else (None, None)
    if Path(model).exists() or name is None or (revision is not None and behind is not None):
        if revision is not None:
            raise ValueError(f"revision must be None for a path, and where one is behind @; got {revision!r} for {model}.")
        return None
    first, slash, _ = name.partition("/")
    if not slash and name not in SHORT_NAMES:
        meant = MEANT_NAMES.get(name.lower().replace("_", "-"))
        near = [meant] if meant else difflib.get_close_matches(name, SHORT_NAMES, n=1)
        if near and not Path(name).suffix:
            raise ValueError(
                f"there is no file or folder {name}, and no short name of a model: did you mean {near[0]}, or user/{name} of the "
                "hub?"
            )
        return None
    if slash and Path(first).is_dir():  # a path that does not exist, in a folder that does
        return None
    return SHORT_NAMES.get(name, name), behind or revision


def _downloaded(repository, revision, weights, check_config):
    import huggingface_hub

    try:
        info = huggingface_hub.HfApi(endpoint=address()).model_info(repository, revision=revision, files_metadata=True)
    except client_errors() as error:
        folder = _cached(repository, revision, weights) if _is_out_of_reach(error) else None
        if folder is None:
            raise _in_a_sentence(error, repository, revision) from None
        return folder
    names = [file.rfilename for file in info.siblings]
    small, large = chosen_files(names, weights)
    if weights and not large:
        has = ", ".join(sorted({Path(name).suffix or name for name in names})) or "no files"
        raise ValueError(f"{repository} must have weights as .safetensors, .bin, .h5, .keras or a checkpoint; it has {has}.")
    checksums = {file.rfilename: file.lfs.sha256 for file in info.siblings if file.lfs is not None}
    download = functools.partial(_resumed, huggingface_hub.snapshot_download, repository, endpoint=address())
    try:
        # By its name, so that the cache knows which commit it is when the hub cannot be asked.
        folder = Path(download(revision=revision, allow_patterns=exactly(small)))
    except client_errors() as error:
        raise _in_a_sentence(error, repository, revision) from None
    if check_config is not None and (folder / "config.json").is_file():
        check_config(folder / "config.json")
    try:
        new = [name for name in large if not isinstance(_in_cache(repository, name, info.sha), str)]
        if new:
            download(revision=info.sha, allow_patterns=exactly(large))
    except client_errors() as error:
        raise _in_a_sentence(error, repository, revision) from None
    for name in new:
        _check(folder / name, checksums.get(name), repository)
    return folder


def chosen_files(names: list[str], weights: bool = True) -> tuple[list[str], list[str]]:
    """Which files of a repository are read: settings and tokenizer, and weights, in the repository and in folders of modules.

    Args:
        names: the paths of all its files.
        weights: whether weights are needed.
    """
    small, large = [], []
    for folder in sorted({name.rpartition("/")[0] for name in names}):
        if folder and not MODULE.fullmatch(folder):
            continue
        here = {name: name.rpartition("/")[2] for name in names if name.rpartition("/")[0] == folder}
        small += [name for name, file in here.items() if file in (CARD, *SETTINGS, *TOKENIZERS)]
        for pattern in WEIGHTS if weights else ():
            fitting = [name for name, file in here.items() if re.fullmatch(pattern, file)]
            if fitting:
                large += fitting
                break
    return small, large


def address():
    """The address of the hub, as it is now: the client reads the variable once, when it is imported."""
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", constants.ENDPOINT).rstrip("/")


def exactly(names):
    """Patterns of the client that fit these names alone."""
    return [re.sub(r"([\[*?])", r"[\1]", name) for name in names]


def _in_cache(repository, name, revision):
    from huggingface_hub import try_to_load_from_cache

    return try_to_load_from_cache(repository, name, revision=revision)


def _cached(repository, revision, weights):
    """The folder of a model in the cache; None if it is not there, or not with what is needed."""
    for name in (*SETTINGS[:2], *TOKENIZERS):
        path = _in_cache(repository, name, revision)
        if isinstance(path, str):
            folder = Path(path).parent
            names = [file.name for file in folder.iterdir()]
            return folder if not weights or chosen_files(names)[1] else None
    return None


def _check(path, checksum, repository):
    """Refuse a file that was just downloaded and is not what the hub says, and remove it."""
    if checksum is None:
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != checksum:
        path.resolve().unlink()
        path.unlink(missing_ok=True)
        raise ValueError(
            f"{path.name} of {repository} must have the SHA-256 {checksum[:12]}…; what came has {digest[:12]}…, and is removed: "
            "try again."
        )


def _resumed(download, *arguments, **options):
    """Call a function that downloads, and again where the connection broke off: it resumes."""
    from huggingface_hub import errors

    for _ in range(ATTEMPTS - 1):
        try:
            return download(*arguments, **options)
        except errors.HTTPError as error:
            if isinstance(error, errors.HfHubHTTPError):
                raise
    return download(*arguments, **options)


def client_errors():
    """What the client raises: what the hub answered, what the connection or the disk did, and names that cannot be."""
    from huggingface_hub import errors

    return errors.HfHubHTTPError, errors.HTTPError, OSError, RuntimeError, ValueError


def _is_out_of_reach(error):
    """Whether an error says that the hub did not answer, not what it answered."""
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        return error.response is not None and error.response.status_code >= 500
    return not isinstance(error, ValueError)


def _in_a_sentence(error, repository, revision):
    from huggingface_hub import constants, errors

    from keras_bert_rebuild.files.durable import FULL_DISK  # with NumPy, which the command line does without

    page = f"{address()}/{repository}"
    if isinstance(error, errors.GatedRepoError):
        return ValueError(
            f"{repository} is gated: accept its conditions at {page}, then log in with `hf auth login` or set HF_TOKEN."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return ValueError(f"{repository} must have the revision {revision}; the hub knows none of this name.")
    if isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)):
        near = difflib.get_close_matches(repository, MODELS, n=1)
        meant = f": did you mean {near[0]}?" if near else ", or it is private and needs a token (`hf auth login`)."
        return ValueError(f"there is no file or folder {repository}, and the hub has no model of this name{meant}")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return ValueError(f"{repository} is not in the cache {constants.HF_HUB_CACHE}, and HF_HUB_OFFLINE forbids to download it.")
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        return ValueError(
            f"{repository} must have room in {constants.HF_HUB_CACHE} ({error.strerror}): make room, or set HF_HOME to another "
            "folder; the next call resumes."
        )
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return ValueError(f"{repository} could not be written: {error.filename}: {error.strerror}.")
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ValueError(
        f"{repository} could not be downloaded from {address()} ({reason[:120]}): connect, or give the path of a folder; "
        "what has come so far is kept, and the next call resumes."
    )
