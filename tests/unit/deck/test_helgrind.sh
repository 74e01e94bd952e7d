# Helgrind finds no race and no misused lock in the deck under load.
set -eu
if [ -n "$TD_SANITIZE" ] || ! command -v valgrind >/dev/null; then
    echo "skipped: needs valgrind and a build without sanitizers"
    exit 0
fi
export TD_TEST=several_threads_record_into_one_deck
exec valgrind --tool=helgrind -q --error-exitcode=1 \
    --suppressions="$TD_SOURCE/tests/unit/deck/helgrind.supp" \
    "$TD_BUILD/tests/unit_deck_test_queue_threads"
