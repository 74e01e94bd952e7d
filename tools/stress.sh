# shellcheck shell=sh
# ./dev crash, ./dev attack, ./dev fuzz: the robustness tests, for as long as one likes.

command_crash() {
    need_for test
    build_preset release || exit 1
    export TD_KILLS="${1:-5000}"
    run_ctest build -L crash --timeout 36000 --verbose
    finish
}

command_attack() {
    need_for test
    build_preset asan || exit 1
    export TD_MUTATIONS="${1:-20000}" TD_SEED="${2:-$(date +%s)}" TD_KEEP="$PWD/build-asan/attack"
    mkdir -p "$TD_KEEP"
    echo "seed $TD_SEED; files that fail are kept in build-asan/attack"
    run_ctest build-asan -L attack --timeout 36000
    finish
}

command_fuzz() {
    need_for fuzz
    build_preset fuzz || exit 1
    for source in tests/fuzz/${1:-*}.c; do
        name=$(basename "$source" .c)
        [ "$name" != replay ] || continue
        [ -f "$source" ] || fail "no fuzz target $name"
        mkdir -p "build-fuzz/corpus/$name"
        echo "fuzzing $name for ${2:-60} s"
        quietly "build-fuzz/tests/fuzz/$name" -max_total_time="${2:-60}" -timeout=10 -rss_limit_mb=2048 \
            -artifact_prefix="build-fuzz/$name-" "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" ||
            fail "a finding: build-fuzz/$name-*"
    done
}
