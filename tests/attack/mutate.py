"""Changes to files that keep enough of their structure for a reader to go on: bytes, texts, and the parts of NPY, ZIP,
PNG, safetensors and TensorBoard's event files, with lengths and checksums put right again (mostly)."""
import io
import json
import struct
import warnings
import zipfile
import zlib

import protobuf

NUMBERS = [0, 1, 2, 3, 4, 7, 8, 9, 10, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1023, 4096, 32767, 32768, 65535, 65536,
           1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 53) + 1, (1 << 62), (1 << 63) - 1,
           1 << 63, (1 << 64) - 1, 10**19, 10**40]
TEXTS = ["", "nan", "-nan", "inf", "-inf", "1e999", "-1e999", "1e-999", "0x1p3", "-0", "+1", ".", "-", "e", "1e", "1.5.2", "NA",
         "null", "true", "\t", "\0", "\r", "\n", "\"", "'", ",", ";", "[", "]", "{", "}", "(", ")", "<", ">", "*", "?", "%s%n", "..",
         "../../x", "/", "\\", "\x1b]0;x\x07", "\u202e", "\ufeff", "a" * 300, "9" * 400, "é", "\x80"]


def varied(random, number):
    """A whole number near to, or far from, this one."""
    choice = random.random()
    if choice < 0.5:
        value = random.choice(NUMBERS)
        return -value if random.random() < 0.2 else value
    if choice < 0.8:
        return number + random.choice([-2, -1, 1, 2])
    return number * random.choice([2, -1, 1000, 0])


def some_bytes(random, data):
    """A few bytes changed, inserted, removed, repeated; or the end cut off."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 3, 8])):
        if not data:
            data += bytes([random.randrange(256)])
        at = random.randrange(len(data))
        kind = random.randrange(8)
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[at] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
        elif kind == 2:
            size = random.choice([2, 4, 8])
            value = random.choice(NUMBERS) & (1 << 8 * size) - 1
            data[at:at + size] = value.to_bytes(size, random.choice(["little", "big"]))
        elif kind == 3:
            del data[at:at + random.choice([1, 2, 4, 16, 200])]
        elif kind == 4:
            data[at:at] = bytes(random.randrange(256) for _ in range(random.choice([1, 2, 8])))
        elif kind == 5:
            piece = data[at:at + random.choice([1, 4, 32, 500])]
            to = random.randrange(len(data))
            data[to:to] = piece
        elif kind == 6:
            piece = data[at:at + random.choice([4, 8, 32])]
            to = random.randrange(len(data))
            data[to:to + len(piece)] = piece
        else:
            del data[at:]
    return bytes(data)


def text(random, data):
    """Words, numbers and lines of a text."""
    source = data.decode("utf-8", "surrogateescape")
    for _ in range(random.choice([1, 1, 2, 3, 6])):
        tokens = split_words(source)
        if not tokens:
            return b""
        at = random.randrange(len(tokens))
        kind = random.randrange(7)
        if kind < 2 and any(token.isdigit() for token in tokens):
            at = random.choice([i for i, token in enumerate(tokens) if token.isdigit()])
            tokens[at] = str(varied(random, int(tokens[at][:40])))
        elif kind == 2:
            tokens[at] = random.choice(TEXTS)
        elif kind == 3:
            del tokens[at:at + random.choice([1, 2, 5])]
        elif kind == 4:
            tokens.insert(at, random.choice(TEXTS))
        elif kind == 5:
            to = random.randrange(len(tokens))
            tokens[at], tokens[to] = tokens[to], tokens[at]
        else:
            lines = source.split("\n")
            line, to = random.randrange(len(lines)), random.randrange(len(lines))
            lines[to:to + random.choice([0, 1])] = [lines[line]] * random.choice([1, 1, 2, 50])
            tokens = ["\n".join(lines)]
        source = "".join(tokens)
    return source.encode("utf-8", "surrogateescape")


def split_words(source):
    words, last = [], ""
    for character in source:
        kind = "d" if character.isdigit() else "a" if character.isalpha() else ""
        if kind and kind == last:
            words[-1] += character
        else:
            words.append(character)
        last = kind
    return words


def either(*mutators):
    def mutate(random, data):
        return random.choice(mutators)(random, data)
    return mutate


def npy(random, data):
    """The header's dictionary, its length put right again."""
    if len(data) < 10 or data[:6] != b"\x93NUMPY" or random.random() < 0.2:
        return some_bytes(random, data)
    size = struct.unpack("<H", data[8:10])[0]
    header = text(random, data[10:10 + size])
    if random.random() < 0.7:
        header = header.rstrip() + b" " * (-(len(header.rstrip()) + 11) % 64) + b"\n"
    body = data[10 + size:]
    body = some_bytes(random, body) if body and random.random() < 0.3 else body
    return data[:8] + struct.pack("<H", min(len(header), 65535)) + header + body


def archive(*inner):
    """A ZIP: one of its files changed by the mutator for its ending, then packed again; or the packing itself."""
    rules = dict(inner)

    def mutate(random, data):
        if random.random() < 0.25:
            return some_bytes(random, data)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as before:
                files = [(entry.filename, before.read(entry), entry.compress_type) for entry in before.infolist()]
        except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, OSError, EOFError):
            return some_bytes(random, data)
        if not files:
            return some_bytes(random, data)
        which = random.randrange(len(files))
        name, content, packing = files[which]
        rule = next((rules[ending] for ending in rules if name.endswith(ending)), some_bytes)
        choice = random.random()
        if choice < 0.75:
            files[which] = (name, rule(random, content), packing)
        elif choice < 0.85:
            files.insert(random.randrange(len(files) + 1), files[which])
        elif choice < 0.92:
            del files[which]
        else:
            files[which] = (random.choice(TEXTS) + name, content, random.choice([0, 8]))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as after, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names that are there twice are intended
            for name, content, packing in files:
                try:
                    after.writestr(name.encode("utf-8", "replace").decode(), content, packing)
                except (ValueError, UnicodeError, NotImplementedError, RuntimeError, IndexError):
                    after.writestr("x", content)  # a name or a packing that cannot be written
        return out.getvalue()
    return mutate


def png(random, data):
    """Chunks, with their checksums put right again."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or random.random() < 0.2:
        return some_bytes(random, data)
    chunks, at = [], 8
    while at + 12 <= len(data):
        size = struct.unpack(">I", data[at:at + 4])[0]
        chunks.append([data[at + 4:at + 8], data[at + 8:at + 8 + size]])
        at += 12 + size
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(chunks))
        kind, body = chunks[at]
        choice = random.random()
        if kind == b"IHDR" and len(body) == 13 and choice < 0.8:
            fields = list(struct.unpack(">IIBBBBB", body))
            which = random.randrange(7)
            limit = (1 << 32) - 1 if which < 2 else 255
            fields[which] = varied(random, fields[which]) & limit
            chunks[at][1] = struct.pack(">IIBBBBB", *fields)
        elif choice < 0.5 and body:
            chunks[at][1] = some_bytes(random, body)
        elif choice < 0.7:
            chunks.insert(at, list(random.choice(chunks)))
        elif choice < 0.85 and len(chunks) > 1:
            del chunks[at]
        else:
            chunks[at][0] = random.choice([b"PLTE", b"tRNS", b"IDAT", b"IEND", b"acTL", b"zTXt"])
    out = bytearray(data[:8])
    for kind, body in chunks:
        out += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return bytes(out)


def json_tree(random, value, depth=0):
    """One change somewhere in a tree of JSON."""
    if isinstance(value, dict) and value and (depth == 0 or random.random() < 0.85):
        value = dict(value)
        key = random.choice(list(value))
        choice = random.random()
        if choice < 0.75:
            value[key] = json_tree(random, value[key], depth + 1)
        elif choice < 0.85:
            del value[key]
        else:
            value[random.choice(TEXTS)] = value[key]
        return value
    if isinstance(value, list) and value and random.random() < 0.85:
        value = list(value)
        at = random.randrange(len(value))
        choice = random.random()
        if choice < 0.75:
            value[at] = json_tree(random, value[at], depth + 1)
        elif choice < 0.85:
            del value[at]
        else:
            value *= random.choice([2, 20])
        return value
    if isinstance(value, int) and not isinstance(value, bool) and random.random() < 0.8:
        return varied(random, value)
    return random.choice([None, True, [], {}, [[[[]]]], -1, 1.5, 1e300, *TEXTS, *NUMBERS])


def json_text(random, data):
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return text(random, data)
    if random.random() < 0.2:
        return text(random, data)
    for _ in range(random.choice([1, 1, 2, 3])):
        tree = json_tree(random, tree)
    return json.dumps(tree).encode("utf-8", "surrogateescape")


def safetensors(random, data):
    """The header, its length put right again."""
    size = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    if size == 0 or size > len(data) - 8 or random.random() < 0.2:
        return some_bytes(random, data)
    header = json_text(random, data[8:8 + size])
    return struct.pack("<Q", len(header)) + header + data[8 + size:]


CRC = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    CRC.append(number)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


EVENT = {
    "Event": {5: "Summary"},
    "Summary": {1: "Value"},
    "Value": {4: "Image", 5: "Histogram", 8: "Tensor", 9: "Metadata"},
    "Metadata": {1: "Plugin"},
    "Tensor": {2: "Shape"},
    "Shape": {2: "Dim"},
}


def event_records(data):
    records, at = [], 0
    while at + 12 <= len(data):
        size = struct.unpack("<Q", data[at:at + 8])[0]
        if at + 12 + size > len(data):
            break
        records.append(data[at + 12:at + 12 + size])
        at += 16 + size
    return records


def events(random, data):
    """Records and the fields inside, with their checksums put right again."""
    records = event_records(data)
    if not records or random.random() < 0.2:
        return some_bytes(random, data)
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(records))
        choice = random.random()
        if choice < 0.7:
            try:
                tree = protobuf.parse(EVENT, "Event", records[at])
                protobuf.change(random, tree, [b"scalars", b"histograms", b"images", b"text", b"", b"\xff"],
                                protobuf.messages(tree))
                records[at] = protobuf.serialise(tree)
            except (IndexError, KeyError, TypeError):
                records[at] = some_bytes(random, records[at])
        elif choice < 0.8:
            records.insert(at, records[at])
        elif choice < 0.9 and len(records) > 1:
            del records[at]
        else:
            records[at] = some_bytes(random, records[at])
    out = b""
    for record in records:
        size = struct.pack("<Q", len(record))
        out += size + masked(size) + record + masked(record)
    return out if random.random() < 0.9 else some_bytes(random, out)
