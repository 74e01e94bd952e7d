# shellcheck shell=sh
# ./dev test and ./dev coverage.

command_test() {
    need_for test
    if build_preset asan; then
        run_ctest build-asan ${1:+-R "$1"}
    else
        tally 0 1
    fi
    [ "${1-}" ] || test_the_rest
    finish
}

test_the_rest() {
    if build_preset tsan; then
        run_ctest build-tsan -L threads
    else
        tally 0 1
    fi
    if build_preset release; then
        run_ctest build -L 'checks|docs|install|valgrind|diagnose'
    else
        tally 0 1
    fi
    check "the site of the documentation" check_site
    check "clang-format" check_format
    command_lint
}

command_coverage() {
    need_for test
    build_preset coverage || exit 1
    find build-coverage -name '*.gcda' -delete
    ctest --test-dir build-coverage -j "$jobs" --timeout 900 --no-tests=error -LE 'checks|install|crash|valgrind' |
        tail -n 12
    /usr/bin/python3 tests/coverage.py build-coverage ${1:+--files}
}
