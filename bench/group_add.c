/* How long the sum over all processes takes: under mpirun, `group_add FLOATS TIMES` prints milliseconds of td_group_add, of rank 0. */
#include "tapedeck/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    td_error error = {0};
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    int times = argc > 2 ? atoi(argv[2]) : 5;
    td_group *group = td_group_open(NULL, &error);
    float *values = calloc(count, sizeof *values);
    if (!group || !values) {
        fprintf(stderr, "group_add: %s\n", group ? "out of memory" : error.text);
        td_group_close(group);
        free(values);
        return 1;
    }
    td_status status = td_group_add(group, values, count, &error);
    double began = now();
    for (int i = 0; !status && i < times; i++) {
        status = td_group_add(group, values, count, &error);
    }
    if (!status && td_group_rank(group) == 0) {
        printf("%.2f\n", (now() - began) / times);
    }
    if (status) {
        fprintf(stderr, "group_add: %s\n", error.text);
    }
    td_group_close(group);
    free(values);
    return status != TD_OK;
}
