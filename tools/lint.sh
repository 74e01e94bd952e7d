# shellcheck shell=sh
# ./dev format and ./dev lint: the layout of the sources and what static analysis finds.

sources() {
    find include src cli tests bench examples python \( -name '*.[ch]' -o -name '*.cc' \) \
        ! -name '*.pb-c.[ch]' 2>/dev/null
}

check_format() {
    sources | xargs clang-format --dry-run -Werror
}

# javascript: makes Biome, which formats and checks web/, available once, outside of the checkout as Python's
# environments are, and sets biome to its program.
biome_version=2.6.7
javascript() {
    folder=$cache/biome-$biome_version
    biome=$folder/node_modules/.bin/biome
    need_npm
    [ ! -f "$folder/complete" ] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "installing Biome $biome_version into $folder"
    quietly npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "@biomejs/biome@$biome_version" ||
        fail "npm could not install @biomejs/biome@$biome_version"
    touch "$folder/complete"
}

check_javascript() (
    cd web && "$biome" check --error-on-warnings .
)

# ./dev format
format_sources() {
    sources | xargs clang-format -i
    javascript
    # Twice: where it joins a chain of calls, Biome sees only then that more fits into a line.
    (cd web && quietly "$biome" format --write . && quietly "$biome" format --write .)
}

check_tidy() {
    cmake --preset asan >/dev/null || return 1
    sources | grep -E '^(src|cli)/.*\.cc?$' |
        xargs -P "$jobs" -n 4 clang-tidy -p build-asan --quiet
}

check_cpp() {
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c17 --std=c++17 -j "$jobs" \
        --enable=warning,performance,portability --suppressions-list=.cppcheck-suppressions \
        --max-configs=2 -D__GNUC__=12 -I include -I src/core -I src/engine -I src/recorder -I src/formats -I src/training -I src/view src cli
}

check_shell() {
    shellcheck -s sh -x dev && find tests bench packaging -name '*.sh' -exec shellcheck -s sh {} +
}

command_lint() {
    need_for lint
    check "clang-tidy" check_tidy
    check "cppcheck" check_cpp
    check "shellcheck" check_shell
    javascript
    check "biome" check_javascript
}
