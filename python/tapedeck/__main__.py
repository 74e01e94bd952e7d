"""``python -m tapedeck …`` runs the program ``tapedeck`` that came with the package, in this process's place."""
import os
import sys

from .run import _program


def main() -> None:
    try:
        program = _program()
    except FileNotFoundError as error:
        sys.exit(f"tapedeck: {error}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
