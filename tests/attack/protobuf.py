"""Protocol buffers as trees of fields, and changes to them that keep the rest sound.

A schema says which fields of a message are messages: {"Model": {7: "Graph"}, ...}. A message is a list of
[number, wire, value]; value is a list for a message, bytes for other lengths, an int for numbers."""
import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
SIZES = {FIXED64: 8, FIXED32: 4}

INTERESTING = [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 127, 128, 255, 256, 1023, 65535, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31,
               (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2]
FLOATS = [0.0, 1.0, -1.0, 0.5, 2.0, 1e30, -1e30, 3e38, 1e-40, float("inf"), float("nan")]


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def write_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(schema, kind, data):
    """The fields of a message."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire == BYTES:
            size, at = read_varint(data, at)
            value = data[at:at + size]
            at += size
            inside = schema.get(kind, {}).get(number)
            value = parse(schema, inside, value) if inside else value
        else:
            value = int.from_bytes(data[at:at + SIZES[wire]], "little")
            at += SIZES[wire]
        fields.append([number, wire, value])
    return fields


def serialise(fields):
    out = bytearray()
    for number, wire, value in fields:
        out += write_varint(number << 3 | wire)
        if wire == VARINT:
            out += write_varint(value & (1 << 64) - 1)
        elif wire == BYTES:
            inside = serialise(value) if isinstance(value, list) else value
            out += write_varint(len(inside)) + inside
        else:
            out += (value & (1 << 8 * SIZES[wire]) - 1).to_bytes(SIZES[wire], "little")
    return bytes(out)


def copy(fields):
    return [[number, wire, copy(value) if isinstance(value, list) else value] for number, wire, value in fields]


def messages(fields):
    """All messages of a tree, the whole first."""
    found = [fields]
    for _, _, value in fields:
        if isinstance(value, list):
            found += messages(value)
    return found


def change_number(random, field):
    if field[1] == FIXED32 and random.random() < 0.7:
        field[2] = struct.unpack("<I", struct.pack("<f", random.choice(FLOATS)))[0]
    elif random.random() < 0.7:
        field[2] = random.choice(INTERESTING)
    else:
        field[2] = field[2] + random.choice([-2, -1, 1, 2]) & (1 << 64) - 1


def change_bytes(random, field, words):
    data = bytearray(field[2])
    way = random.randrange(6)
    if way == 0 and words:
        data = bytearray(random.choice(words))
    elif way == 1 and data:
        del data[random.randrange(len(data)):]
    elif way == 2:
        data += bytes(random.randrange(256) for _ in range(random.choice([1, 3, 4, 8, 16])))
    elif way == 3 and len(data) >= 8:
        at = random.randrange(len(data) - 7)
        data[at:at + 8] = (random.choice(INTERESTING) & (1 << 64) - 1).to_bytes(8, "little")
    elif way == 4 and len(data) >= 4:
        at = random.randrange(len(data) // 4) * 4
        data[at:at + 4] = struct.pack("<f", random.choice(FLOATS))
    elif data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    field[2] = bytes(data)


def change(random, tree, words, donors):
    """One change somewhere in the tree, in place. words: texts worth trying; donors: messages of other files."""
    fields = random.choice(messages(tree))
    if not fields:
        return
    at = random.randrange(len(fields))
    field = fields[at]
    way = random.randrange(10)
    if way < 5:
        if isinstance(field[2], list):
            change(random, field[2] or tree, words, donors)
        elif isinstance(field[2], bytes):
            change_bytes(random, field, words)
        else:
            change_number(random, field)
    elif way == 5:
        del fields[at]
    elif way == 6:
        fields.insert(random.randrange(len(fields) + 1), copy([field])[0])
    elif way == 7:
        other = random.randrange(len(fields))
        fields[at], fields[other] = fields[other], fields[at]
    elif way == 8:
        same = [f for f in random.choice(donors) if f[0] == field[0] and f[1] == field[1]]
        if same:
            fields[at] = copy([random.choice(same)])[0]
    else:
        field[0] = random.choice([field[0] + 1, field[0] - 1, random.randrange(1, 32)]) or 1
