# Helgrind finds no race and no misused lock in the deck under load.
set -eu
export TD_TEST=several_threads_record_into_one_deck
exec valgrind --tool=helgrind -q --error-exitcode=1 \
    --suppressions="$TD_SOURCE/tests/unit/deck/helgrind.supp" \
    "$TD_BUILD/tests/unit_deck_test_queue_threads"
