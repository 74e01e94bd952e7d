# shellcheck shell=sh
# ./dev format and ./dev lint: the layout of the sources and what static analysis finds.

sources() {
    find include src cli tests bench examples python \( -name '*.[ch]' -o -name '*.cc' \) \
        ! -name '*.pb-c.[ch]' 2>/dev/null
}

check_format() {
    sources | xargs clang-format --dry-run -Werror
}

check_tidy() {
    cmake --preset asan >/dev/null || return 1
    sources | grep -E '^(src|cli)/.*\.cc?$' |
        xargs -P "$jobs" -n 4 clang-tidy -p build-asan --quiet
}

check_cpp() {
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c17 --std=c++17 -j "$jobs" \
        --enable=warning,performance,portability --suppressions-list=.cppcheck-suppressions \
        --max-configs=2 -D__GNUC__=12 -I include -I src src cli
}

check_shell() {
    shellcheck -s sh -x dev && find tests bench packaging -name '*.sh' -exec shellcheck -s sh {} +
}

command_lint() {
    need_for lint
    check "clang-tidy" check_tidy
    check "cppcheck" check_cpp
    check "shellcheck" check_shell
}
