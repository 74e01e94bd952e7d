"""TensorBoard's event files, read with nothing but the standard library and numpy.

Written from the formats' definitions (TFRecord framing, protocol buffers), not from our writer.
"""
import struct

import numpy as np


def _table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The whole records; a last one that is not all there is left out, as TensorBoard does."""
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (crc,) = struct.unpack_from("<I", data, at + 8)
        assert crc == masked_crc(data[at : at + 8]), f"length crc at {at}"
        if at + 16 + length > len(data):
            return
        body = data[at + 12 : at + 12 + length]
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert crc == masked_crc(body), f"data crc at {at}"
        yield body
        at += 16 + length


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def message(data):
    """{field: [values]}; a value is an int, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        else:
            size = {1: 8, 5: 4}[wire]
            value, at = data[at : at + size], at + size
        fields.setdefault(field, []).append(value)
    return fields


def _tensor(data):
    tensor = message(data)
    dtype = tensor[1][0]
    shape = [message(dim).get(1, [0])[0] for dim in message(tensor[2][0]).get(2, [])]
    if dtype == 7:
        strings = tensor.get(8, [])
        return strings if shape else strings[0]
    if 5 in tensor:
        return np.frombuffer(tensor[5][0], "<f4").reshape(shape)
    return np.frombuffer(tensor.get(4, [b""])[0], {1: "<f4", 2: "<f8"}[dtype]).reshape(shape)


def values(data):
    """(step, tag, plugin, tensor) of everything in the file, in order."""
    plugins, first = {}, True
    for body in records(data):
        event = message(body)
        if first:
            assert event[3] == [b"brain.Event:2"], "the first event names the version"
            first = False
        step = event.get(2, [0])[0]
        for summary in event.get(5, []):
            for value in message(summary).get(1, []):
                fields = message(value)
                tag = fields[1][0].decode()
                if 9 in fields:
                    plugins[tag] = message(message(fields[9][0])[1][0])[1][0].decode()
                yield step, tag, plugins[tag], _tensor(fields[8][0])
