"""Archives that would write elsewhere, expand without limit or are damaged; made by the tests."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from keras_bert_rebuild.datasets import unpack as module
from keras_bert_rebuild.datasets.unpack import unpack

ORIGIN = "https://example.org/tiny_bert.zip"


@pytest.fixture
def place(tmp_path):
    """A separate folder, so that a path traversal would be visible in it."""
    place = tmp_path / "place"
    place.mkdir()
    return place


def write_zip(place, *names, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(place / "archive", "w", method) as archive:
        archive.writestr("tiny_bert/vocab.txt", "[PAD]")
        for name in names:
            archive.writestr(name, "x")
    return place / "archive"


def write_tar(place, *members):
    with tarfile.open(place / "archive", "w:gz") as archive:
        for name, content, fields in (("tiny_bert/vocab.txt", b"[PAD]", {}), *members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return place / "archive"


def is_refused(archive, match):
    """One sentence, and nothing is written."""
    with pytest.raises(ValueError, match=match) as error:
        unpack(archive, archive.parent / "unpacked", ORIGIN)
    assert str(error.value).startswith(f"{ORIGIN} is ")
    assert "\n" not in str(error.value)
    assert [path.name for path in archive.parent.iterdir()] == ["archive"]
    assert [path.name for path in archive.parents[1].iterdir()] == ["place"]


@pytest.mark.parametrize("write", [write_zip, lambda place: write_tar(place, ("tiny_bert", b"", {"type": tarfile.DIRTYPE}))])
def test_the_files_of_an_archive_are_unpacked(place, write):
    unpack(write(place), place / "unpacked", ORIGIN)
    assert (place / "unpacked" / "tiny_bert" / "vocab.txt").read_text() == "[PAD]"


def test_folders_alone_and_points_in_names_are_unpacked(place):
    unpack(write_zip(place, "./tiny_bert/a/./b", "empty/"), place / "unpacked", ORIGIN)
    assert (place / "unpacked" / "tiny_bert" / "a" / "b").read_text() == "x"
    assert list((place / "unpacked" / "empty").iterdir()) == []


def test_the_backslashes_of_windows_are_folders(place):
    unpack(write_zip(place, "tiny_bert\\variables\\index"), place / "unpacked", ORIGIN)
    assert (place / "unpacked" / "tiny_bert" / "variables" / "index").exists()


OUTSIDE = [
    "../evil",
    "tiny_bert/../../evil",
    "/evil",
    "C:/evil",
    "C:evil",
    "tiny_bert/a:b",
    "..\\evil",
    "\\\\host\\evil",
    ".. /evil",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_zip_member_outside_the_folder_is_refused_by_name(place, name):
    shown = repr(name.replace("\\", "/"))
    is_refused(write_zip(place, name), rf"its member {shown} would be written outside the folder\.$")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_tar_member_outside_the_folder_is_refused_by_name(place, name):
    shown = repr(name.replace("\\", "/"))
    is_refused(write_tar(place, (name, b"x", {})), rf"its member {shown} would be written outside the folder\.$")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE])
def test_links_and_devices_in_a_tar_are_refused_by_name(place, kind):
    archive = write_tar(place, ("tiny_bert/etc", b"", {"type": kind, "linkname": "/etc"}), ("tiny_bert/etc/evil", b"x", {}))
    is_refused(archive, "its member 'tiny_bert/etc' is a link, a device or a sparse file")


def test_a_link_in_a_zip_is_refused_by_name(place):
    link = zipfile.ZipInfo("tiny_bert/etc")
    link.external_attr = 0o120777 << 16
    is_refused(write_zip(place, link), "its member 'tiny_bert/etc' is a link")


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_two_members_with_one_path_are_one_sentence(place, names):
    with pytest.raises(ValueError, match="has the path of another member"):
        unpack(write_zip(place, *names), place / "unpacked", ORIGIN)


def test_a_zip_bomb_is_refused_by_name(place):
    zeros = bytes(1 << 20)
    with zipfile.ZipFile(place / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("weights"), bytes(range(256)) * 1000)  # stored: the archive as a whole looks harmless
        with archive.open("bomb", "w") as member:
            for _ in range(100):
                member.write(zeros)
    is_refused(place / "archive", r"its member 'bomb' claims 104,857,600 bytes, implausible for 10\d,\d{3} packed")


def test_many_members_that_are_a_bomb_together_are_refused(place, monkeypatch):
    monkeypatch.setattr(module, "RATIO_FROM", 10_000_000)
    with zipfile.ZipFile(place / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0", bytes(9_000_000))
        # As such bombs do: many directory entries that point to the same data.
        archive.filelist += archive.filelist * 9
    is_refused(place / "archive", "up to '0' its members claim 18,000,000 bytes, implausible for ")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"size": 65 << 30}, "up to 'bomb' its members claim 69,793,218,560 bytes, implausible for "),
        (
            {"size": -512},
            "up to 'bomb' its members claim -512 bytes, implausible for |invalid offset",
        ),  # newer Python versions refuse it themselves
        ({"size": 1 << 30, "type": tarfile.XHDTYPE}, "a header of implausible length"),
    ],
)
def test_a_tar_header_of_absurd_size_is_refused(place, fields, reason):
    header = tarfile.TarInfo("bomb")
    for field, value in fields.items():
        setattr(header, field, value)
    (place / "archive").write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    is_refused(place / "archive", reason)


def test_too_many_members_are_refused(place, monkeypatch):
    monkeypatch.setattr(module, "MAX_MEMBERS", 2)
    is_refused(write_zip(place, "a", "b"), "more than 2 members, 'b'")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_without_limit_are_refused(place, method):
    is_refused(write_zip(place, method=method), "its member 'tiny_bert/vocab.txt' is compressed by a method other than deflate")


@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_a_truncated_archive_is_one_sentence(place, write):
    archive = write(place)
    content = archive.read_bytes()
    for length in (10, len(content) // 2, len(content) - 1):
        archive.write_bytes(content[:length])
        is_refused(archive, "is damaged or not a supported archive")


def test_a_flipped_bit_is_one_sentence(place):
    for write in (write_zip, write_tar):
        archive = write(place)
        content = bytearray(archive.read_bytes())
        content[content.index(b"[PAD]") if b"[PAD]" in content else -6] ^= 1  # the text, or the checksum of the stream
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=rf"^{ORIGIN} is damaged"):
            unpack(archive, place / f"unpacked by {write.__name__}", ORIGIN)


def test_a_zip_with_a_password_is_one_sentence(place):
    archive = write_zip(place)
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x03\x04") + 6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged or not a supported archive \(.*password"):
        unpack(archive, place / "unpacked", ORIGIN)


def test_a_file_that_is_not_an_archive_is_one_sentence(place):
    Path(place / "archive").write_text("<html>please log in</html>")
    is_refused(place / "archive", r"it is neither a \.zip nor a \.tar\.gz file")
