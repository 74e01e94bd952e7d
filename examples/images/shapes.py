"""Writes shapes/: 450 pictures of 16 x 16 grey pixels in a folder a class, as PNG files. Nothing but Python is needed."""
import os
import random
import struct
import zlib

random.seed(6)
SIZE = 16


def inside(shape, x, y, radius):
    return {"circle": x * x + y * y <= radius * radius, "square": max(abs(x), abs(y)) <= 0.85 * radius,
            "triangle": -0.7 * radius <= y <= radius and abs(x) <= 0.55 * (y + radius)}[shape]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path, rows):
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))) + chunk(b"IEND", b""))


for shape in ("circle", "square", "triangle"):
    os.makedirs(f"shapes/{shape}", exist_ok=True)
    for number in range(150):
        radius, left, top = random.uniform(4, 6), random.uniform(6, 10), random.uniform(6, 10)
        light, dark = random.randint(130, 250), random.randint(0, 90)
        write_png(f"shapes/{shape}/{number:03}.png", [
            [min(255, max(0, (light if inside(shape, x - left, y - top, radius) else dark) + random.randint(-25, 25))) for x in range(SIZE)]
            for y in range(SIZE)])
