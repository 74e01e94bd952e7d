# shellcheck shell=sh
# Running tests and counting what passed; `finish` prints the sum.

passed=0
failed=0
tally() {
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# check NAME COMMAND…: one test that is a command.
check() {
    checked=$1 # commands have a name of their own
    shift
    if quietly "$@"; then
        echo "passed: $checked"
        [ -z "$skipped" ] || printf '  skipped: %d\n%s\n' "$(echo "$skipped" | wc -l)" "$skipped"
        tally 1 0
    else
        echo "FAILED: $checked"
        tally 0 1
    fi
}

# Reads a ctest log and prints "PASSED FAILED". The cases of cmocka, TAP and Python's unittest count one
# by one; a test that prints none counts as one, and a test that dies as one failure at least.
count_cases() {
    awk '
        / Testing: / { good = bad = 0 }
        /^\[       OK \]/ || /^ok / { good++ }
        /^\[ +(FAILED|ERROR) +\] [a-z]/ || /^not ok / { bad++ }
        /^\[==========\] .* run\.$/ { bad = 0 } # cmocka names the failed ones again below
        /^Ran [0-9]+ tests? in / { good += $2 }
        /^FAILED \((failures|errors)=/ {
            gsub(/[^0-9]+/, " ")
            for (i = 1; i <= NF; i++) { good -= $i; bad += $i }
        }
        /^Test time = / { ended = 1; next }
        ended && /^Test / {
            ended = 0
            if (/Passed/) { passed += good ? good : 1 } else { passed += good; failed += bad ? bad : 1 }
        }
        END { print passed + 0, failed + 0 }
    ' "$1"
}

# run_ctest FOLDER [ctest's options]
run_ctest() {
    folder=$1
    shift
    before=$failed
    status=0
    ctest --test-dir "$folder" -j "$jobs" --output-on-failure --timeout 900 --no-tests=error "$@" ||
        status=$?
    # shellcheck disable=SC2046 # two numbers
    tally $(count_cases "$folder/Testing/Temporary/LastTest.log")
    [ $status = 0 ] || [ "$failed" != "$before" ] || tally 0 1
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
