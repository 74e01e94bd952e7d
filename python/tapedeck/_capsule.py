"""The files of a capsule: the last steps of a training, so that they can be executed again.

    RUN/capsules/STEP/capsule.json       what was called with what, losses, random states, optimizers' settings
                      state.safetensors  model and optimizer at the beginning of the first step
                      STEP.….npy         batches and random states

Nothing is pickled. A folder is written under another name and renamed when it is complete. What is read is checked before
it is used: a capsule may come from anywhere.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

VERSION = 1
_MAX_JSON = 64 << 20  # bytes
_SAFETENSORS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
                "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL"}


class CapsuleError(ValueError):
    """A capsule that cannot be read, or does not belong to the model: nothing was changed."""


class Array:
    """Elements and their type. NumPy has no bfloat16: its elements are uint16 here."""

    __slots__ = ("data", "dtype")

    def __init__(self, data: Any, dtype: str | None = None) -> None:
        self.data = data
        self.dtype = dtype or data.dtype.name

    def is_storable(self) -> bool:
        return self.dtype in _SAFETENSORS


def _file_word(key: Any) -> str:
    """A key as a part of a file's name."""
    return "".join(c if c.isascii() and c.isalnum() or c in "_-" else "_" for c in str(key))[:60]


def _storage_dtype(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


class Writer:
    """A folder that becomes a capsule."""

    def __init__(self, run: str, step: int) -> None:
        self.path = os.path.join(run, "capsules", str(step))
        self.part = os.path.join(run, "capsules", f".{step}.part")
        shutil.rmtree(self.part, ignore_errors=True)
        os.makedirs(self.part)
        self.count = 0
        self.arrays: dict[str, Array] = {}  # of state.safetensors

    def encode(self, value: Any, name: str, as_files: bool = False) -> Any:
        """A nested value as JSON. Arrays become files, or tensors of state.safetensors, whose names begin with `name`."""
        import numpy

        if value is None or isinstance(value, (bool, str)):
            return {"value": value}
        if isinstance(value, int):
            return {"int": str(value)}
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, (tuple, list)):
            return {"tuple" if isinstance(value, tuple) else "list": [
                self.encode(each, f"{name}.{i}", as_files) for i, each in enumerate(value)]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key, ""), self.encode(each, f"{name}.{_file_word(key) if as_files else key}", as_files)]
                             for key, each in value.items()]}
        if isinstance(value, numpy.generic):
            value = numpy.asarray(value)
        if isinstance(value, numpy.ndarray):
            value = Array(value)
        if not isinstance(value, Array) or not value.is_storable():
            kind = value.dtype if isinstance(value, Array) else type(value).__name__
            raise TypeError(f"a capsule cannot keep {kind}: it keeps tensors, numbers, texts, lists and dicts")
        if not as_files:
            self.arrays[name] = value
            return {"state": name}
        if os.path.exists(os.path.join(self.part, f"{name}.npy")):  # two keys that make the same word
            self.count += 1
            name += f"-{self.count}"
        numpy.save(os.path.join(self.part, f"{name}.npy"), numpy.asarray(value.data, order="C"), allow_pickle=False)
        return {"array": f"{name}.npy", "dtype": value.dtype}

    def finish(self, about: dict[str, Any]) -> str:
        write_safetensors(os.path.join(self.part, "state.safetensors"), self.arrays)
        with open(os.path.join(self.part, "capsule.json"), "w", encoding="utf-8") as file:
            json.dump({"tapedeck_capsule": VERSION, **about}, file)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(self.path, ignore_errors=True)
        os.rename(self.part, self.path)
        return self.path

    def abandon(self) -> None:
        shutil.rmtree(self.part, ignore_errors=True)


def write_safetensors(path: str, arrays: dict[str, Array]) -> None:
    import numpy

    header: dict[str, Any] = {}
    at = 0
    for name, array in arrays.items():
        header[name] = {"dtype": _SAFETENSORS[array.dtype], "shape": list(array.data.shape),
                        "data_offsets": [at, at + array.data.nbytes]}
        at += array.data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(numpy.asarray(array.data, order="C").tobytes())


class Reader:
    """A capsule's folder, checked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._state: dict[str, Array] | None = None
        place = os.path.join(self.path, "capsule.json")
        try:
            if os.path.getsize(place) > _MAX_JSON:
                raise CapsuleError(f"{place} is larger than {_MAX_JSON >> 20} MiB: it is no capsule")
            with open(place, encoding="utf-8") as file:
                self.about = json.load(file)
        except FileNotFoundError:
            raise CapsuleError(f"{self.path} is no capsule: it has no capsule.json (capsules are in RUN/capsules/STEP)") from None
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, CapsuleError):
                raise
            raise CapsuleError(f"{place} cannot be read: {error}") from None
        version = self.about.get("tapedeck_capsule") if isinstance(self.about, dict) else None
        if not isinstance(version, int) or version < 1:
            raise CapsuleError(f"{place} is no capsule of Tapedeck")
        if version > VERSION:
            raise CapsuleError(f"{place} was written by a newer version of Tapedeck (format {version}, this one reads {VERSION})")

    def decode(self, value: Any) -> Any:
        import numpy

        if not isinstance(value, dict):
            raise self.damaged("a value has no type")
        if "state" in value:
            if value["state"] not in self.state():
                raise self.damaged(f"state.safetensors has no {str(value['state'])[:60]!r}")
            return self.state()[value["state"]]
        if "array" in value:
            name, dtype = value["array"], value.get("dtype")
            if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".npy"):
                raise self.damaged(f"an array's file is {str(name)[:60]!r}")
            try:
                data = numpy.load(os.path.join(self.path, name), allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise self.damaged(f"{name}: {error}") from None
            if dtype not in _SAFETENSORS or data.dtype.name != _storage_dtype(dtype):
                raise self.damaged(f"{name} has elements of {data.dtype.name}, not of {str(dtype)[:20]}")
            return Array(data, dtype)
        try:
            if "int" in value:
                return int(value["int"])
            if "float" in value:
                return float.fromhex(value["float"])
            if "list" in value:
                return [self.decode(each) for each in value["list"]]
            if "tuple" in value:
                return tuple(self.decode(each) for each in value["tuple"])
            if "dict" in value:
                return {self.decode(key): self.decode(each) for key, each in value["dict"]}
            return value["value"]
        except CapsuleError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self.damaged(repr(error)) from None

    def state(self) -> dict[str, Array]:
        """The tensors of state.safetensors."""
        if self._state is None:
            self._state = self._read_state()
        return self._state

    def _read_state(self) -> dict[str, Array]:
        import numpy

        path = os.path.join(self.path, "state.safetensors")
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                length = int.from_bytes(file.read(8), "little")
                if length > min(size, _MAX_JSON):
                    raise self.damaged("state.safetensors: the header is longer than the file")
                header = json.loads(file.read(length))
                begin, words, found = 8 + length, {word: name for name, word in _SAFETENSORS.items()}, {}
                for name, entry in header.items():
                    if name == "__metadata__":
                        continue
                    dtype, shape, (first, last) = words[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
                    storage = numpy.dtype(_storage_dtype(dtype))
                    count = 1
                    for axis in shape:
                        if not isinstance(axis, int) or axis < 0:
                            raise self.damaged(f"state.safetensors: {name} has the shape {shape}")
                        count *= axis
                    if not 0 <= first <= last <= size - begin or last - first != count * storage.itemsize:
                        raise self.damaged(f"state.safetensors: {name} does not fit into the file")
                    file.seek(begin + first)
                    found[name] = Array(numpy.frombuffer(file.read(last - first), storage).reshape(shape), dtype)
                return found
        except CapsuleError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.damaged(f"state.safetensors: {error!r}") from None

    def damaged(self, what: str) -> CapsuleError:
        return CapsuleError(f"{self.path} is damaged: {what}; nothing was changed")
