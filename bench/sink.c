/* How fast sinks write, one core each: text of floats, CSV rows, NPY bytes, SQLite scalars,
 * CRC-32C.
 *
 *     ./dev bench sink        (build/bench/sink [FOLDER])
 *
 * The best of several rounds, which is what the code can do; the sinks include handing everything
 * to the system, not the disk. */
#include "base/crc32c.h"
#include "base/number.h"
#include "base/random.h"
#include "sink/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 7, FLOATS = 1 << 18, ROWS = 256, SCALARS = 200000 };

static float floats[FLOATS];
static char text[FLOATS * 16 + TD__NUMBER_ROOM];

/* Of processor time, the kernel's included, so that the machine's other work does not count; with
 * that of the processes that write lines (sink/append.c). */
static double seconds(void) {
    double sum = 0;
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (size_t i = 0; i < 2; i++) {
        struct rusage usage;
        getrusage(whose[i], &usage);
        sum += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    }
    return sum;
}

static double best(double (*round)(const char *), const char *folder) {
    double least = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double took = round(folder);
        least = took < least ? took : least;
    }
    return least;
}

static void fill(double zeros) {
    td__random random;
    td__random_seed(&random, 1, 0);
    for (size_t i = 0; i < FLOATS; i++) {
        double value = td__random_normal(&random);
        floats[i] = td__random_uniform(&random) < zeros ? 0 : (float)(0.1 * value);
    }
}

static double format_round(const char *folder) {
    (void)folder;
    double start = seconds();
    char *end = text;
    for (size_t i = 0; i < FLOATS; i++) {
        end += td__format_float(end, floats[i]);
        *end++ = ',';
    }
    return seconds() - start;
}

static double print_round(const char *folder) {
    (void)folder;
    double start = seconds();
    char *end = text;
    for (size_t i = 0; i < FLOATS; i++) {
        end += snprintf(end, 32, "%.9g,", (double)floats[i]);
    }
    return seconds() - start;
}

static double crc_round(const char *folder) {
    (void)folder;
    double start = seconds();
    uint32_t crc = 0;
    for (int i = 0; i < 100; i++) {
        crc = td__crc32c(crc, floats, sizeof floats);
    }
    double took = seconds() - start;
    return crc == 1 ? 0 : took;
}

static void check(td_status status, const td_error *error) {
    if (status != TD_OK) {
        fprintf(stderr, "sink: %s\n", error->text);
        exit(1);
    }
}

/* Opens the sink on a new folder below folder, calls write, and closes; the time between. */
static double timed(const td_sink_class *class, const char *folder,
                    void (*write)(const td_sink_class *, td_sink *)) {
    char path[256];
    snprintf(path, sizeof path, "%s/tapedeck-bench-XXXXXX", folder);
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
    td_error error = {0};
    td_sink *sink;
    td_sink_options options = {.size = sizeof options, .folder = path, .run = "bench"};
    check(class->open(&options, &sink, &error), &error);
    double start = seconds();
    write(class, sink);
    check(class->end_step(sink, 1, 1, &error), &error);
    double took = seconds() - start;
    check(class->close(sink, &error), &error);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command) == 0 ? took : 0;
}

static void write_tensors(const td_sink_class *class, td_sink *sink) {
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(ROWS, FLOATS / ROWS), .data = floats};
    td_record record = {.signal = "hidden.output",
                        .form = class == &td__sink_csv ? TD_ROWS : TD_TENSOR,
                        .epoch = 1,
                        .view = &view};
    td_error error = {0};
    for (record.step = 1; record.step <= 8; record.step++) {
        check(class->write(sink, &record, &error), &error);
    }
}

/* 1 KiB each, as the layers of a small network are. */
static void write_small(const td_sink_class *class, td_sink *sink) {
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(32, 8), .data = floats};
    td_record record = {.signal = "hidden.output", .form = TD_TENSOR, .epoch = 1, .view = &view};
    td_error error = {0};
    for (record.step = 1; record.step <= SCALARS / 10; record.step++) {
        check(class->write(sink, &record, &error), &error);
    }
}

static void write_scalars(const td_sink_class *class, td_sink *sink) {
    static const char *const names[] = {"loss", "accuracy", "learning_rate", "norm"};
    td_error error = {0};
    for (int64_t i = 0; i < SCALARS; i++) {
        td_record record = {.signal = names[i % 4],
                            .signal_index = (int32_t)(i % 4),
                            .form = TD_SCALAR,
                            .epoch = 1,
                            .step = 1 + i / 4,
                            .value = (double)floats[i]};
        check(class->write(sink, &record, &error), &error);
    }
    check(class->flush(sink, &error), &error);
}

static double csv_round(const char *folder) {
    return timed(&td__sink_csv, folder, write_tensors);
}
static double npy_round(const char *folder) {
    return timed(&td__sink_npy, folder, write_tensors);
}
static double small_round(const char *folder) {
    return timed(&td__sink_npy, folder, write_small);
}
static double sqlite_round(const char *folder) {
    return timed(&td__sink_sqlite, folder, write_scalars);
}
static double events_round(const char *folder) {
    return timed(&td__sink_tensorboard, folder, write_scalars);
}

int main(int count, char **arguments) {
    const char *folder = count > 1 ? arguments[1] : "/tmp";
    fill(0);
    printf("text of a float          %8.1f Mfloat/s\n", FLOATS / best(format_round, folder) / 1e6);
    printf("  snprintf %%.9g          %8.1f Mfloat/s\n", FLOATS / best(print_round, folder) / 1e6);
    printf("csv rows                 %8.1f Mfloat/s\n", 8 * FLOATS / best(csv_round, folder) / 1e6);
    fill(0.5);
    printf("csv rows, half zeros     %8.1f Mfloat/s\n", 8 * FLOATS / best(csv_round, folder) / 1e6);
    printf("npy, records of 1 MiB    %8.2f GB/s\n",
           8 * sizeof floats / best(npy_round, folder) / 1e9);
    printf("npy, records of 1 KiB    %8.2f GB/s, %.1f million records/s\n",
           SCALARS / 10 * 1024 / best(small_round, folder) / 1e9,
           SCALARS / 10 / best(small_round, folder) / 1e6);
    printf("sqlite scalars           %8.0f rows/s\n", SCALARS / best(sqlite_round, folder));
    printf("tensorboard scalars      %8.0f events/s\n", SCALARS / best(events_round, folder));
    printf("crc32c                   %8.1f GB/s\n",
           100 * sizeof floats / best(crc_round, folder) / 1e9);
    return 0;
}
