/* How fast CSV text becomes float32, in memory, on one core (the time of that core, whatever else
 * the machine does).
 *
 *   data_csv [MEBIBYTES]     (default 64)
 *
 * Each kind of number is written into a text of that size and parsed five times; the best and the
 * median are shown. */
#include "base/memory.h"
#include "base/random.h"
#include "data/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COLUMNS = 65, ROUNDS = 5 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int write_pixel(char *to, size_t size, td__random *random) {
    return snprintf(to, size, "%d", (int)td__random_below(random, 17));
}
static int write_short(char *to, size_t size, td__random *random) {
    return snprintf(to, size, "%.4f", td__random_normal(random));
}
static int write_float(char *to, size_t size, td__random *random) {
    return snprintf(to, size, "%.9g", (double)(float)td__random_normal(random));
}
static int write_double(char *to, size_t size, td__random *random) {
    return snprintf(to, size, "%.17g", td__random_normal(random));
}
static int write_quoted(char *to, size_t size, td__random *random) {
    return snprintf(to, size, "\"%.4f\"", td__random_normal(random));
}

static const struct {
    const char *name;
    int (*write)(char *to, size_t size, td__random *random);
} kinds[] = {{"whole numbers 0-16", write_pixel},
             {"4 decimals", write_short},
             {"float32, 9 digits", write_float},
             {"float64, 17 digits", write_double},
             {"4 decimals, quoted", write_quoted}};

static size_t fill(char *text, size_t size, size_t kind) {
    td__random random;
    td__random_seed(&random, kind, 1);
    size_t length = 0;
    while (length + COLUMNS * 32 < size) {
        for (int i = 0; i < COLUMNS; i++) {
            length += (size_t)kinds[kind].write(text + length, 32, &random);
            text[length++] = i + 1 < COLUMNS ? ',' : '\n';
        }
    }
    return length;
}

static int64_t parse(const char *text, size_t length) {
    td_error error = {0};
    td_data_options options = *TD_DATA(.label = TD_NAMES("last"));
    td__input *input = NULL;
    if (td__input_memory(&input, "bench", text, length, &error)) {
        return -1;
    }
    td__csv csv = {.options = &options, .input = input, .error = &error};
    td__row_store store;
    td__row_store_init(&store, NULL);
    store.memory = SIZE_MAX;
    td_status status = td__csv_start(&csv);
    if (!status) {
        status = td__csv_parse(&csv, &store);
    }
    int64_t rows = status ? -1 : csv.rows;
    if (status) {
        fprintf(stderr, "%s\n", error.text);
    }
    td__csv_release(&csv);
    td__row_store_release(&store);
    td__input_close(input);
    return rows;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    size_t size = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
    char *text = malloc(size);
    if (!text || size == 0) {
        return 1;
    }
    printf("%-20s %12s %12s %14s\n", "", "MB/s best", "median", "Mnumbers/s");
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        size_t length = fill(text, size, kind);
        double times[ROUNDS];
        int64_t rows = 0;
        for (int round = 0; round < ROUNDS; round++) {
            double start = seconds();
            rows = parse(text, length);
            times[round] = seconds() - start;
            if (rows < 0) {
                return 1;
            }
        }
        qsort(times, ROUNDS, sizeof *times, by_value);
        printf("%-20s %12.0f %12.0f %14.1f\n", kinds[kind].name, (double)length / times[0] / 1e6,
               (double)length / times[ROUNDS / 2] / 1e6,
               (double)rows * COLUMNS / times[ROUNDS / 2] / 1e6);
    }
    free(text);
    return 0;
}
