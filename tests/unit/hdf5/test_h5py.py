"""What h5py writes, in each of its ways, the library reads: the same objects, types, values and texts."""
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy

HELPERS = os.path.join(os.environ["TD_BUILD"], "tests", "helpers")
TYPES = ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4",
         "<u4", ">u4", "<i8", ">i8", "<u8", ">u8", "?"]
UNSUPPORTED = "9"


def converted(array):
    """As the library hands it out: the nearest of its five types that holds all values."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f":
        return array.astype("<f8" if size == 8 else "<f4")
    if kind == "b" or array.dtype == numpy.uint8:
        return array.astype("u1")
    return array.astype("<i8" if size == 8 or (kind == "u" and size == 4) else "<i4")


def texts(value):
    values = [value] if isinstance(value, (str, bytes)) else list(value)
    return [v if isinstance(v, bytes) else v.encode() for v in values]


class Case(unittest.TestCase):
    libver = "earliest"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "a.h5")

    def make(self, **options):
        return h5py.File(self.path, "w", **{"libver": self.libver, **options})

    def show(self, attributes=()):
        """The lines that the library makes of the file, as {path: (word, rest)} and {(path, name): texts}."""
        run = subprocess.run([os.path.join(HELPERS, "hdf5_show"), self.path, *attributes],
                             capture_output=True, text=True, check=True)
        self.assertEqual(run.stderr, "")
        objects, found = {}, {}
        for line in run.stdout.splitlines():
            word, path, *rest = line.split(" ")
            path = path.replace("//", "/")
            if word == "texts":
                found[path, rest[0]] = [bytes.fromhex(text[1:]) for text in rest[1:]]
            else:
                objects[path] = (word, rest)
        return objects, found

    def check(self):
        """Everything h5py sees, the library sees, and nothing else."""
        names, expected, expected_texts = set(), {"/": ("group", [])}, {}
        with h5py.File(self.path, "r") as file:
            def visit(path, item):
                for name, value in item.attrs.items():
                    names.add(name)
                    expected_texts[path, name] = texts(value)
                if isinstance(item, h5py.Group):
                    expected[path] = ("group", [])
                    for name in item:
                        visit(path.rstrip("/") + "/" + name, item[name])
                else:
                    array = converted(item[()] if item.shape is not None else numpy.zeros(0, item.dtype))
                    shape = ",".join(map(str, array.shape))
                    expected[path] = ("array", [array.dtype.name, shape, array.tobytes().hex()])
            visit("/", file)
        objects, found = self.show(sorted(names))
        self.assertEqual(objects, expected)
        self.assertEqual(found, expected_texts)


class Oldest(Case):
    """libver='earliest', which is what h5py and Keras write by default."""

    def test_types_and_byte_orders(self):
        with self.make() as file:
            for kind in TYPES:
                values = numpy.arange(-5, 7).reshape(3, 4)
                file["/types/" + kind] = (abs(values) if "u" in kind else values).astype(kind)
                if kind.endswith("f2"):
                    every = numpy.arange(65536, dtype="u2").view("<f2")
                    file["/every/" + kind] = every[~numpy.isnan(every)].astype(kind)
        self.check()

    def test_extreme_integers(self):
        with self.make() as file:
            for kind in ["i1", "<i2", ">u2", ">i4", "<u4", "<i8", ">i8"]:
                about = numpy.iinfo(kind)
                file[kind] = numpy.array([about.min, about.max], kind)
            file["/u8"] = numpy.array([0, 2**63 - 1], "<u8")
            file["/beyond"] = numpy.array([2**63], "<u8")
        objects, _ = self.show()
        self.assertEqual(objects.pop("/beyond")[0], "refused")
        with h5py.File(self.path, "a") as file:
            del file["beyond"]
        self.check()

    def test_shapes(self):
        with self.make() as file:
            file["scalar"] = numpy.float32(2.5)
            file["empty"] = numpy.zeros((0, 3), "f4")
            file["eight"] = numpy.arange(256, dtype="i4").reshape([2] * 8)
            file["null"] = h5py.Empty("f4")
            file.create_dataset("never_written", (3, 2), "f4")
            file.create_dataset("filled", (3, 2), ">i2", fillvalue=-7)
        self.check()

    def test_texts(self):
        with self.make() as file:
            group = file.create_group("group")
            for name, value in {
                    "text": "hällo wörld", "bytes": b"bytes", "empty": "", "long": "x" * 70000,
                    "list": ["a", "bcd", "", "é"], "fixed": numpy.array([b"kernel:0", b"bias:0"]),
                    "one_fixed": numpy.bytes_("dense"), "none": numpy.array([]),
                    "no_names": numpy.array([], "S3")}.items():
                group.attrs[name] = value
            group.attrs.create("utf8", "fünf".encode(), dtype=h5py.string_dtype("utf-8", 12))
            data = file.create_dataset("data", data=numpy.arange(3.0))
            data.attrs["unit"] = "m"
        self.check()

    def test_space_padded_texts(self):
        with self.make() as file:
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(8)
            kind.set_strpad(h5py.h5t.STR_SPACEPAD)
            attribute = h5py.h5a.create(file.id, b"padded", kind, h5py.h5s.create(h5py.h5s.SCALAR))
            attribute.write(numpy.array(b"ab c    "))
        self.assertEqual(self.show(["padded"])[1], {("/", "padded"): [b"ab c"]})

    def test_attributes_that_are_no_texts(self):
        with self.make() as file:
            file.attrs["number"] = 3
            file.attrs["grid"] = [["a", "b"], ["c", "d"]]
        for name in ["number", "grid"]:
            word, rest = self.show([name])[0]["/"]
            self.assertEqual((word, rest[0]), ("refused", "3"))
            self.assertIn("'" + name + "'", rest)

    def test_many_attributes(self):
        with self.make() as file:
            for i in range(150):
                file.attrs[f"attribute {i}".replace(" ", "_")] = f"value {i}"
        self.check()

    def test_many_links(self):
        for count in [8, 9, 33, 120, 1500]:
            with self.subTest(count=count), self.make() as file:
                file["group/data"] = numpy.arange(4, dtype="f4")
                for i in range(count - 1):
                    file[f"group/a rather long name {i}".replace(" ", "_")] = file["group/data"]
            self.check()

    def test_long_names(self):
        with self.make() as file:
            for i in range(700):
                file.create_group(f"{i}_" + "x" * 1000)
        self.check()

    def test_nested_groups(self):
        with self.make() as file:
            file["a/b/c/d/e/f/g/h/data"] = numpy.arange(5)
            file["a/b/ä/ö"] = numpy.arange(2)
        self.check()

    def test_soft_links(self):
        with self.make() as file:
            file["a/data"] = numpy.arange(3)
            file["a/same"] = h5py.SoftLink("data")
            file["a/same_again"] = h5py.SoftLink("/b/there")
            file["b/there"] = h5py.SoftLink("/a/./same")
        self.check()

    def test_chains_of_soft_links(self):
        def chain(length):
            with self.make() as file:
                file["data"] = numpy.arange(3)
                for i in range(length):
                    file[f"{i:02}"] = h5py.SoftLink(f"{i + 1:02}" if i + 1 < length else "data")
        chain(16)
        self.check()
        chain(40)
        self.assertEqual(self.show()[0]["/"][0], "refused")

    def test_many_soft_links_in_a_group(self):
        with self.make() as file:
            for i in range(1000):
                file[f"group/{i}"] = h5py.SoftLink("/data")
            file["data"] = numpy.arange(3)
        self.check()
        with h5py.File(self.path, "a") as file:
            for i in range(1000, 1025):
                file[f"group/{i}"] = h5py.SoftLink("/data")
        word, rest = self.show()[0]["/group"]
        self.assertEqual((word, rest[0]), ("refused", UNSUPPORTED))

    def test_soft_links_that_lead_nowhere(self):
        with self.make() as file:
            file["gone"] = h5py.SoftLink("/nothing/here")
        self.assertEqual(self.show()[0]["/gone"][0], "nothing")
        with self.make() as file:
            file["a"] = h5py.SoftLink("b")
            file["b"] = h5py.SoftLink("a")
        self.assertEqual(self.show()[0]["/"][0], "refused")

    def test_what_lies_outside_is_refused(self):
        with self.make() as file:
            file["link/out"] = h5py.ExternalLink("other.h5", "/")
            file.create_dataset("stored/out", (4,), "f4", external=[("raw.bin", 0, 16)])
        objects, _ = self.show()
        for path in ["/link", "/stored/out"]:
            self.assertEqual((objects[path][0], objects[path][1][0]), ("refused", UNSUPPORTED))

    def test_virtual_datasets_are_refused(self):
        with self.make() as file:
            layout = h5py.VirtualLayout((3,), "f4")
            layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
            file.create_virtual_dataset("virtual", layout)
        word, rest = self.show()[0]["/virtual"]
        self.assertEqual((word, rest[0]), ("refused", UNSUPPORTED))

    def test_elements_that_are_no_numbers_are_refused(self):
        with self.make() as file:
            file["texts"] = ["a", "b"]
            file["compound"] = numpy.zeros(2, [("x", "f4"), ("y", "i4")])
            file["complex"] = numpy.zeros(2, "c8")
            file["ragged"] = numpy.array([numpy.arange(2), numpy.arange(3)], dtype=object).astype(
                h5py.vlen_dtype("i4"))
            file["type"] = numpy.dtype("f4")
            file.create_dataset("named", (2,), dtype=file["type"])
        objects, _ = self.show()
        for path in ["/texts", "/compound", "/complex", "/ragged", "/named"]:
            self.assertEqual((objects[path][0], objects[path][1][0]), ("refused", UNSUPPORTED), path)

    def test_user_block(self):
        with self.make(userblock_size=1024) as file:
            file["data"] = numpy.arange(3)
            file.attrs["name"] = "text"
        self.check()

    def test_narrow_addresses(self):
        properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        properties.set_sizes(4, 4)
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        bound = {"earliest": h5py.h5f.LIBVER_EARLIEST, "latest": h5py.h5f.LIBVER_LATEST}
        if self.libver in bound:
            access.set_libver_bounds(bound[self.libver], h5py.h5f.LIBVER_LATEST)
        made = h5py.h5f.create(self.path.encode(), h5py.h5f.ACC_TRUNC, properties, access)
        with h5py.File(made) as file:
            file["a/b"] = numpy.arange(4)
            file.attrs["list"] = ["x", "yz"]
            for i in range(50):
                file.create_group(f"many/{i}")
                file.attrs[f"{i}"] = f"{i}"
        self.check()

    def test_superblock_of_version_1(self):
        with h5py.File(self.path, "w", libver="earliest") as file:
            file["a/b"] = numpy.arange(4)
            root = h5py.h5o.get_info(file.id).addr if hasattr(h5py.h5o, "get_info") else 96
        with open(self.path, "rb") as file:
            old = file.read()
        size = 16 + int.from_bytes(old[root + 8:root + 12], "little")
        entry = old[56:64] + len(old).to_bytes(8, "little") + old[72:96]
        new = old[:8] + b"\1" + old[9:24] + b"\x20\0\0\0" + old[24:40]
        new += (len(old) + size).to_bytes(8, "little") + old[48:56] + entry
        with open(self.path, "wb") as file:
            file.write(new + old[len(new):] + old[root:root + size])
        self.check()

    def test_chunks(self):
        values = numpy.arange(7 * 11 * 5).reshape(7, 11, 5)
        options = [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True},
                   {"shuffle": True}, {"compression": "gzip", "shuffle": True, "fletcher32": True}]
        with self.make() as file:
            for i, option in enumerate(options):
                for kind in ["<f4", ">f8", "i1", "<u2", "?"]:
                    for chunks in [(7, 11, 5), (3, 4, 2), (1, 1, 5)]:
                        file.create_dataset(f"{i}/{kind}{chunks}".replace(" ", ""), data=values.astype(kind),
                                            chunks=chunks, **option)
            file.create_dataset("line", data=numpy.arange(2999), chunks=(1,), compression="gzip")
            part = file.create_dataset("part", (10, 10), "<i2", chunks=(3, 3), fillvalue=-1)
            part[4, 2:8] = 5
            grown = file.create_dataset("grown", (4, 4), "f4", chunks=(8, 8), maxshape=(None, None))
            grown[...] = 1
            grown.resize((3, 9))
            file.create_dataset("none", (10, 10), "f4", chunks=(3, 3))
        self.check()

    def test_chunks_that_unpack_to_too_much_are_refused(self):
        with self.make() as file:
            file.create_dataset("zeros", data=numpy.zeros((3000, 2000), "f4"), chunks=(1000, 1000),
                                compression="gzip")
            file.create_dataset("nothing", (2**25,), "f4", chunks=(2**20,))
            file.create_dataset("nowhere", (2**25,), "f4")
        objects, _ = self.show()
        for path in ["/zeros", "/nothing", "/nowhere"]:
            self.assertEqual((objects[path][0], objects[path][1][0]), ("refused", "10"))

    def test_one_chunk_that_unpacks_to_too_much_is_refused(self):
        with self.make() as file:
            file.create_dataset("one", data=numpy.zeros((3000, 1000), "f4"), chunks=(3000, 1000),
                                compression="gzip")
        word, rest = self.show()[0]["/one"]
        self.assertEqual((word, rest[0]), ("refused", "10"))

    def test_chunks_that_are_one_chunk_are_refused(self):
        with h5py.File(self.path, "w", libver="earliest") as file:
            data = file.create_dataset("data", data=numpy.arange(60 * 1024, dtype="f4"), chunks=(1024,))
            places = sorted(data.id.get_chunk_info(i).byte_offset for i in range(60))
        with open(self.path, "rb") as file:
            content = file.read()[:places[1]]
        for place in places[1:]:
            content = content.replace(place.to_bytes(8, "little"), places[0].to_bytes(8, "little"))
        content = content[:40] + len(content).to_bytes(8, "little") + content[48:]
        with open(self.path, "wb") as file:
            file.write(content)
        word, rest = self.show()[0]["/data"]
        self.assertEqual((word, rest[-2:]), ("refused", ["a", "chunk"]))

    def test_other_filters_are_refused(self):
        with self.make() as file:
            file.create_dataset("lzf", data=numpy.arange(100), chunks=(10,), compression="lzf")
            file.create_dataset("scaled", data=numpy.arange(100), chunks=(10,), scaleoffset=4)
        objects, _ = self.show()
        for path in ["/lzf", "/scaled"]:
            self.assertEqual((objects[path][0], objects[path][1][0]), ("refused", UNSUPPORTED))


class Latest(Oldest):
    """libver='latest': headers with checksums, compact and dense links and attributes."""

    libver = "latest"
    test_one_chunk_that_unpacks_to_too_much_is_refused = None

    def test_chunks(self):
        with self.make() as file:
            for name, chunks in {"one": (5,), "many": (2,)}.items():
                file.create_dataset(name, data=numpy.arange(5.0), chunks=chunks)
        objects, _ = self.show()
        for path in ["/one", "/many"]:
            self.assertEqual((objects[path][0], objects[path][1][0]), ("refused", UNSUPPORTED))
            self.assertIn("chunk", objects[path][1])

    def test_creation_order(self):
        with self.make(track_order=True) as file:
            for i in range(20):
                group = file.create_group(f"{i * 7 % 20}", track_order=True)
                for k in range(i):
                    group.attrs[f"a{k * 3}"] = f"{k}"
        self.check()


class Newer(Latest):
    """What h5py writes when it may use some of the newer structures."""

    libver = ("v108", "v108")

    test_chunks = Oldest.test_chunks
    test_one_chunk_that_unpacks_to_too_much_is_refused = (
        Oldest.test_one_chunk_that_unpacks_to_too_much_is_refused)
    test_virtual_datasets_are_refused = None


if __name__ == "__main__":
    unittest.main()
