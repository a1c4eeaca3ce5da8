"""Varints, the integers of protocol buffers and LevelDB: seven bits per byte, lowest first.

Reference: https://protobuf.dev/programming-guides/encoding/.
"""


def varint(number):
    """The bytes of an integer of at least 0."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(content, at):
    """An integer, and the offset of the byte after it.

    Raises:
        IndexError: the content ends within the integer, or the integer is longer than 64 bits.
    """
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number is longer than 64 bits")
