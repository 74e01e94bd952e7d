#include "json.h"

#include <math.h>

void print_json_text(const char *text) {
    (void)fputc('"', stdout);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else if (*c < 0x20) {
            printf("\\u%04x", *c);
        } else {
            (void)fputc(*c, stdout);
        }
    }
    (void)fputc('"', stdout);
}

void print_json_number(double number) {
    if (isfinite(number)) {
        printf("%.17g", number);
    } else {
        (void)fputs("null", stdout);
    }
}

void print_json_stats(const td_shape *shape, const td_stats *stats) {
    (void)fputs("\"shape\": [", stdout);
    for (int32_t i = 0; i < shape->rank; i++) {
        printf("%s%lld", i ? ", " : "", (long long)shape->dims[i]);
    }
    printf("], \"count\": %lld", (long long)stats->count);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"mean", stats->mean},
                   {"std", stats->std},
                   {"min", stats->min},
                   {"max", stats->max},
                   {"norm", stats->norm}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        printf(", \"%s\": ", numbers[i].name);
        print_json_number(numbers[i].value);
    }
    printf(", \"zeros\": %lld, \"nan\": %lld, \"inf\": %lld", (long long)stats->zeros,
           (long long)stats->nan, (long long)stats->inf);
}
