"""``python -m tapedeck …`` runs the program ``tapedeck`` that came with the package, in this process's place.

``python -m tapedeck export RUN --to FILE.parquet [--form FORM] [--what GLOBS]`` is done here, by pyarrow.
"""
import os
import sys

from .run import _program


def _export_parquet(words: list[str]) -> None:
    from argparse import ArgumentParser

    from . import Error, Run

    parser = ArgumentParser("python -m tapedeck export", description="Writes records of a run as a Parquet file, which needs pyarrow.")
    parser.add_argument("run")
    parser.add_argument("--to", "-o", required=True, metavar="FILE.parquet", help="where to")
    parser.add_argument("--force", action="store_true", help="replace a file that is there already")
    parser.add_argument("--form", default="scalar", help="scalar, stats, histogram, rows, tensor or text")
    parser.add_argument("--what", help="names and globs of signals; default all")
    options = parser.parse_args(words)
    try:
        if os.path.lexists(options.to) and not options.force:
            raise FileExistsError(f"{options.to} is there already; --force replaces it")
        run = Run(options.run)
        run.to_parquet(options.to, options.form, options.what)
        from pyarrow import parquet

        print(f"{options.to}: {parquet.read_metadata(options.to).num_rows} rows")
    except (Error, OSError, ImportError, ValueError) as error:
        sys.exit(f"tapedeck: {error}")
    if run.problems:
        sys.exit("\n".join(f"tapedeck: {problem}" for problem in run.problems))


def main() -> None:
    words = sys.argv[1:]
    parquet = any(word.endswith(".parquet") and (words[i - 1] in ("--to", "-o") or word.startswith("--to="))
                  for i, word in enumerate(words))
    if words[:1] == ["export"] and parquet:
        return _export_parquet(words[1:])
    try:
        program = _program()
    except FileNotFoundError as error:
        sys.exit(f"tapedeck: {error}")
    os.execv(program, [program, *words])


if __name__ == "__main__":
    main()
