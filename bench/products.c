/* How near matrix products and convolutions come to the machine's peak, on one thread.
 *
 *     products                    compare with: peak 1
 *     products M,N,K …            products of these sizes alone
 */
#include "tape/conv.h"
#include "tape/gemm.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15 };

static float *values(int64_t count) {
    float *made = calloc((size_t)count + 64, sizeof *made);
    for (int64_t i = 0; made && i < count; i++) {
        made[i] = (float)(i * 7 % 13) / 13.0f - 0.5f;
    }
    return made;
}

/* Of this thread: others who share the machine do not count. */
static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints the best of several rounds of enough repetitions. */
static void measure(const char *name, double multiply_adds, void (*run)(void *), void *context) {
    int repetitions = (int)(2e8 / multiply_adds) + 1;
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = processor_seconds();
        for (int i = 0; i < repetitions; i++) {
            run(context);
        }
        double each = (processor_seconds() - begin) / repetitions;
        best = each < best ? each : best;
    }
    printf("%-46s %10.2f us %7.1f GFLOP/s\n", name, best * 1e6, 2e-9 * multiply_adds / best);
}

static td_tape *tape;

static void run_gemm(void *context) {
    (void)td__gemm(tape, context);
}

static void matrices(int64_t m, int64_t n, int64_t k) {
    float *a = values(m * k), *b = values(k * n), *c = values(m * n);
    td__gemm_arguments plain = {
        .m = m, .n = n, .k = k, .a = a, .lda = k, .b = b, .ldb = n, .c = c, .ldc = n};
    td__gemm_arguments left = plain, right = plain;
    left.transpose_a = true;
    left.lda = m;
    right.transpose_b = true;
    right.ldb = k;
    td__gemm_arguments *forms[] = {&plain, &left, &right};
    static const char *const names[] = {"a b", "a^T b", "a b^T"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %lld x %lld x %lld", names[i], (long long)m, (long long)n,
                 (long long)k);
        measure(name, (double)(m * n * k), run_gemm, forms[i]);
    }
    free(a);
    free(b);
    free(c);
}

typedef struct convolution {
    td__conv conv;
    float *image, *kernel, *output;
} convolution;

static void run_forward(void *context) {
    convolution *c = context;
    (void)td__conv_forward(tape, &c->conv, c->image, c->kernel, NULL, c->output, 0);
}

static void run_to_input(void *context) {
    convolution *c = context;
    (void)td__conv_to_input(tape, &c->conv, c->output, c->kernel, NULL, c->image, 0);
}

static void run_to_kernel(void *context) {
    convolution *c = context;
    (void)td__conv_to_kernel(tape, &c->conv, c->image, c->output, false, c->kernel);
}

/* 3x3, padding `same`. */
static void convolve(int64_t batch, int64_t size, int64_t channels, int64_t filters,
                     int64_t groups) {
    convolution c = {.conv = {.batch = batch,
                              .height = size,
                              .width = size,
                              .channels = channels,
                              .kernel = {3, 3},
                              .filters = filters,
                              .groups = groups,
                              .stride = {1, 1},
                              .dilation = {1, 1},
                              .before = {1, 1},
                              .out = {size, size}}};
    int64_t pixels = batch * size * size;
    double work = (double)(pixels * 9 * channels / groups * filters);
    void (*const runs[])(void *) = {run_forward, run_to_input, run_to_kernel};
    static const char *const names[] = {"conv", "conv to input", "conv to kernel"};
    for (int i = 0; i < 3; i++) {
        c.image = values(pixels * channels);
        c.kernel = values(9 * channels / groups * filters);
        c.output = values(pixels * filters);
        char name[96];
        snprintf(name, sizeof name, "%s, %lld x %lldx%lld, %lld to %lld in %lld", names[i],
                 (long long)batch, (long long)size, (long long)size, (long long)channels,
                 (long long)filters, (long long)groups);
        measure(name, work, runs[i], &c);
        free(c.image);
        free(c.kernel);
        free(c.output);
    }
}

static void given_matrices(int count, char **sizes) {
    for (int i = 0; i < count; i++) {
        long long m, n, k;
        if (sscanf(sizes[i], "%lld,%lld,%lld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) {
            fprintf(stderr, "usage: products [M,N,K …]\n");
            exit(2);
        }
        matrices(m, n, k);
    }
}

int main(int argc, char **argv) {
    td_threads_set(1);
    tape = td_tape_create(NULL, NULL);
    if (!tape) {
        return 1;
    }
    if (argc > 1) {
        given_matrices(argc - 1, argv + 1);
        td_tape_destroy(tape);
        return 0;
    }
    matrices(32, 10, 5);
    matrices(128, 512, 784);
    matrices(512, 512, 512);
    convolve(32, 32, 32, 32, 1);
    convolve(32, 16, 64, 64, 1);
    convolve(8, 56, 128, 128, 128);
    convolve(8, 14, 512, 512, 512);
    convolve(8, 28, 128, 128, 32);
    convolve(8, 28, 256, 256, 32);
    convolve(8, 14, 512, 512, 32);
    td_tape_destroy(tape);
    return 0;
}
