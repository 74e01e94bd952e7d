/* What the deck's counters call written is what NumPy, Python's csv module and a reader of event files
 * find: for records that wait in a sink's buffer, that fill it and that pass it, on a disk with room and
 * on one that fills up. */
#include "folder.h"

#include "tapedeck/deck.h"

#include <sys/resource.h>
#include <unistd.h>

enum { RECORDS = 5, MOST = 300000 };

/* Reads lines of run, sink, elements of a record, records that were counted. */
static const char reader[] =
    "import csv, glob, os, struct, sys\n"
    "import numpy\n"
    "def fields(data):\n"
    "    at = 0\n"
    "    def varint():\n"
    "        nonlocal at\n"
    "        value = shift = 0\n"
    "        while True:\n"
    "            byte = data[at]; at += 1\n"
    "            value |= (byte & 127) << shift; shift += 7\n"
    "            if byte < 128: return value\n"
    "    while at < len(data):\n"
    "        key = varint()\n"
    "        if key & 7 == 0: yield key >> 3, varint(); continue\n"
    "        count = {1: 8, 5: 4}.get(key & 7) or varint()\n"
    "        yield key >> 3, data[at:at + count]; at += count\n"
    "def events(name):\n"
    "    data = open(name, 'rb').read()\n"
    "    while len(data) > 16:\n"
    "        size = struct.unpack('<Q', data[:8])[0]\n"
    "        yield data[12:12 + size]; data = data[16 + size:]\n"
    "def npy(size):\n"
    "    found = len(numpy.load('x.npy')); assert len(numpy.load('x.steps.npy')) >= found\n"
    "    return found\n"
    "def long(size):\n"
    "    rows = list(csv.reader(open('x.csv')))[1:]\n"
    "    found = len({row[1] for row in rows}); assert len(rows) == found * size, len(rows)\n"
    "    return found\n"
    "def metrics(size):\n"
    "    return len(list(csv.reader(open('metrics.csv')))) - 1\n"
    "def tensorboard(size):\n"
    "    return sum(n == 1 for name in glob.glob('events*') for event in events(name)\n"
    "               for number, summary in fields(event) if number == 5\n"
    "               for n, value in fields(summary))\n"
    "wrong = []\n"
    "for line in sys.stdin.read().splitlines():\n"
    "    run, sink, size, written = line.split()\n"
    "    os.chdir(run)\n"
    "    found = {'npy': npy, 'csv': long, 'metrics': metrics,\n"
    "             'tensorboard': tensorboard}[sink](int(size))\n"
    "    if found != int(written):\n"
    "        wrong.append(f'{sink}, {size} elements: {found} in the files, {written} counted')\n"
    "sys.exit('\\n'.join(wrong) or 0)\n";

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int64_t record(const char *run, const char *sink, td_form form, int64_t size, bool room) {
    static float values[MOST];
    td_error error = {0};
    td_deck *deck = td_deck_open_with(
        run, &(td_deck_options){.size = sizeof(td_deck_options), .no_index = true}, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    bool metrics = strcmp(sink, "metrics") == 0;
    assert_int_equal(td_deck_track(deck, .what = "x", .form = form, .to = metrics ? "csv" : sink),
                     TD_OK);
    assert_ok(td_deck_flush(deck, &error), error);
    limit_files(room ? RLIM_INFINITY : 700000);
    for (int64_t step = 1; step <= RECORDS; step++) {
        if (form == TD_SCALAR) {
            td_deck_scalar(deck, "x", (double)step);
        } else {
            (void)td_deck_record(
                deck, "x", (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(size), .data = values});
        }
        td_deck_step(deck, 1, step);
    }
    td_deck_counters counters = {.size = sizeof counters};
    td_status status = td_deck_close_with(deck, &counters, &error);
    limit_files(RLIM_INFINITY);
    assert_int_equal(counters.submitted, RECORDS);
    assert_int_equal(counters.written + counters.dropped, RECORDS);
    assert_int_equal(counters.pending, 0);
    if (room) {
        assert_ok(status, error);
        assert_int_equal(counters.dropped, 0);
    }
    return counters.written;
}

static void compare(FILE *python, const char *sink, td_form form, int64_t size, bool room) {
    static int runs;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run%d", folder, runs++);
    int64_t written = record(run, sink, form, size, room);
    (void)fprintf(python, "%s %s %lld %lld\n", run, sink, (long long)size, (long long)written);
}

static void compare_all(bool room) {
    char path[96], command[160];
    (void)snprintf(path, sizeof path, "%s/reader.py", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(reader, file);
    fclose(file);
    (void)snprintf(command, sizeof command, "env -u LD_PRELOAD /usr/bin/python3 %s", path);
    FILE *python = popen(command, "w");
    assert_non_null(python);
    static const int64_t sizes[] = {1, 1000, 65535, 65536, 65537, 150000, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        compare(python, "npy", TD_TENSOR, sizes[i], room);
    }
    static const int64_t lines[] = {1, 1000, 30000, 65536};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        compare(python, "csv", TD_LONG, lines[i], room);
        compare(python, "tensorboard", TD_HISTOGRAM, lines[i], room);
    }
    compare(python, "metrics", TD_SCALAR, 1, room);
    compare(python, "tensorboard", TD_SCALAR, 1, room);
    assert_int_equal(pclose(python), 0);
}

static void counted_records_are_in_the_files(void **state) {
    (void)state;
    compare_all(true);
}

static void counted_records_are_in_the_files_of_a_full_disk(void **state) {
    (void)state;
    compare_all(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counted_records_are_in_the_files, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(counted_records_are_in_the_files_of_a_full_disk,
                                        make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
