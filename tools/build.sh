# shellcheck shell=sh
# Building by preset, and running commands quietly.

jobs=$(nproc 2>/dev/null || echo 2)

# quietly COMMAND…: its output is shown only when it fails; skipped gets the checks that it passed over.
quietly() {
    output=$(mktemp)
    if "$@" >"$output" 2>&1; then
        skipped=$(sed -n 's/^\(.*\) \.\.\. skipped \(.*\)$/    \1: \2/p' "$output") # as unittest -v has it
        rm -f "$output"
    else
        cat "$output"
        rm -f "$output"
        return 1
    fi
}

# build_preset PRESET [TARGET…]
build_preset() {
    preset=$1
    shift
    echo "building $preset"
    quietly cmake --preset "$preset" &&
        quietly cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

# What the release preset makes: the program where there is one, else the library.
release_target() {
    if [ -f cli/main.c ]; then echo tapedeck_program; else echo libtapedeck.so; fi
}
