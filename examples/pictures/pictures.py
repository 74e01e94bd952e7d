"""Writes photos/ and photos.csv: 120 pictures of discs and squares as PNG, BMP and TIFF files of different sizes, from a seed.
Nothing but Python is needed."""
import os
import random
import struct
import zlib


def draw(kind, height, width):
    """Rows of (red, green, blue)."""
    back, front = ([random.randrange(20, 236) for _ in range(3)] for _ in range(2))
    size = min(height, width) * random.uniform(0.25, 0.4)
    y0, x0 = random.uniform(size, height - size), random.uniform(size, width - size)
    return [[tuple(front if (abs(y - y0) < size * 0.8 and abs(x - x0) < size * 0.8 if kind == "square" else
                             (y - y0) ** 2 + (x - x0) ** 2 < size * size) else back) for x in range(width)]
            for y in range(height)]


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    data = b"".join(b"\0" + bytes(c for pixel in row for c in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def bmp(rows):
    data = b""
    for row in reversed(rows):
        line = bytes(c for pixel in row for c in reversed(pixel))
        data += line + bytes(-len(line) % 4)
    return struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + len(data), 0, 54, 40, len(rows[0]), len(rows), 1, 24, 0, len(data),
                       0, 0, 0, 0) + data


def tiff(rows):
    data = bytes(c for row in rows for pixel in row for c in pixel)
    tags = [(256, 4, 1, len(rows[0])), (257, 4, 1, len(rows)), (258, 3, 3, 8), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 14),
            (277, 3, 1, 3), (278, 4, 1, len(rows)), (279, 4, 1, len(data))]
    bits = struct.pack("<HHH", 8, 8, 8)
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
    return struct.pack("<2sHI", b"II", 42, 14 + len(data)) + bits + data + directory


random.seed(3)
os.makedirs("photos", exist_ok=True)
with open("photos.csv", "w", encoding="utf-8") as file:
    file.write("path,kind\n")
    for i in range(120):
        kind = random.choice(["disc", "square"])
        ending, write = random.choice([("png", png), ("bmp", bmp), ("tiff", tiff)])
        path = f"photos/{i:03}.{ending}"
        with open(path, "wb") as picture:
            picture.write(write(draw(kind, random.randrange(18, 40), random.randrange(18, 40))))
        file.write(f"{path},{kind}\n")
