"""Share a model: its files go to a repository of the Hugging Face hub, as they are saved in a folder."""

import os
import tempfile
from pathlib import Path

import keras

from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.files.hub import CARD, NAME, Origin, address, chosen_files, client_errors, exactly
from keras_bert_rebuild.files.kinds import MODEL, RUN, folder_kind
from keras_bert_rebuild.pretrained.card_files import is_unchanged_card
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained
from keras_bert_rebuild.pretrained.tokenizer_files import may_follow
from keras_bert_rebuild.tasks.task import Task


def push_to_hub(
    model: Task | keras.Model | str | os.PathLike[str],
    repository: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    message: str = "Upload a model",
) -> Origin:
    """Upload a model to the Hugging Face hub, and return the name and the commit by which it is loaded.

    Of a folder, those files go up that `from_pretrained` and `load_task` read, and the card; nothing else that is in it. In the
    repository they replace the files of another model that would be read, but not a README.md that you wrote or changed there.

    Args:
        model: a folder of `save_pretrained`, `Task.save`, or `model/` of a training, whose card has the scores; or a model or task,
            which is first saved to a temporary folder.
        repository: "user/name" or "organisation/name"; it is made if it does not exist.
        private: whether a new repository is private; None for the default of the account.
        revision: the branch, which is made if it does not exist; None for the main branch.
        message: of the commit.

    Raises:
        ValueError: the name has another form, the folder is not that of a model, there is no token, the token may not write there,
            or the hub cannot be reached.
    """
    if NAME.fullmatch(repository) is None or repository.count("/") != 1 or "@" in repository:
        raise ValueError(
            f"the name of a repository must be user/name, of letters, digits, '.', '_' and '-'; got {repository!r:.80}."
        )
    if isinstance(model, (str, os.PathLike)):
        return _uploaded(Path(model), repository, private, revision, message)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        if isinstance(model, Task):
            model.save(folder)
        else:
            family = getattr(getattr(model, "config", None), "family", None)
            save_pretrained(model, folder, "huggingface" if family in FAMILIES else "keras")
        return _uploaded(folder, repository, private, revision, message)


def _uploaded(folder, repository, private, revision, message):
    import huggingface_hub

    names = _checked_files(folder)
    if huggingface_hub.get_token() is None:
        raise ValueError(f"{address()} needs a token that may write: log in with `hf auth login`, or set HF_TOKEN.")
    api = huggingface_hub.HfApi(endpoint=address())
    try:
        if not api.repo_exists(repository):
            api.create_repo(repository, private=private)
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        there = api.list_repo_files(repository, revision=revision)
        if CARD in there and CARD in names and is_unchanged_card(folder / CARD):
            theirs = Path(api.hf_hub_download(repository, CARD, revision=revision))
            names = [name for name in names if name != CARD or is_unchanged_card(theirs)]
        stale = [name for part in chosen_files(there) for name in part if name not in (CARD, *names)]
        done = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            revision=revision,
            commit_message=message,
            allow_patterns=exactly(names),
            delete_patterns=exactly(stale) or None,
        )
    except client_errors() as error:
        raise _in_a_sentence(error, repository) from None
    return Origin(repository, done.oid)


def _checked_files(folder):
    """The names of the files that go up.

    Raises:
        ValueError: the folder is not that of a model that can be loaded, or a file is a link to one elsewhere.
    """
    if not folder.is_dir():
        raise ValueError(f"expected a model, a task or the folder of one; there is no folder {folder}.")
    kind = folder_kind(folder)
    if kind is not MODEL:
        inside = f": push {folder / 'model'}" if kind is RUN and (folder / "model").is_dir() else ""
        raise ValueError(f"{folder} must hold a model; it holds {kind.what if kind else 'none of its files'}{inside}.")
    retriever = read_retriever_folder(folder)
    find_checkpoint(folder if retriever is None else retriever.folder)
    small, large = chosen_files([file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()])
    for file in (folder / name for name in (*small, *large)):
        target = Path(os.path.realpath(file))
        if not may_follow(file, target):
            raise ValueError(f"{file} must be a file of its folder; it is a link to {target}.")
    return [*small, *large]


def _in_a_sentence(error, repository):
    from huggingface_hub import errors

    cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
    response = getattr(cause, "response", None)
    status = None if response is None else response.status_code
    if status == 401:
        return ValueError(f"{address()} must know the token; log in again with `hf auth login`, or set another HF_TOKEN.")
    if status == 403:
        return ValueError(
            f"your token must have the right to write to {repository}: make one with it in your settings at {address()}."
        )
    if isinstance(cause, errors.HFValidationError):
        return ValueError(f"the name of a repository must be one that the hub allows; got {repository!r}.")
    reason = next(iter(str(cause).strip().splitlines()), "") or type(cause).__name__
    return ValueError(f"{repository} could not be uploaded to {address()} ({reason[:120]}): call again when it can be reached.")
