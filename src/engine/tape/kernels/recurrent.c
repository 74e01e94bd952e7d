/* One step of a recurrent cell for one example; gates are n wide each, side by side. */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

static void multiply_add(int64_t n, const float *a, const float *b, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] += a[i] * b[i];
    }
}

/* gates i, f, c, o: cell = f previous + i c */
static void lstm_cell(int64_t n, const float *gates, const float *previous, float *cell) {
    const float *input = gates, *forget = gates + n, *candidate = gates + 2 * n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        cell[i] = forget[i] * previous[i] + input[i] * candidate[i];
    }
}

/* From the gradients of the output (dh) and of the cell (dc) to those of the activated gates;
 * dc becomes that of the previous cell. shown: f(cell), what the output gate lets through. */
static void lstm_cell_backward(int64_t n, const float *gates, const float *previous,
                               const float *shown, const float *dh, float *dc, float *dgates) {
    const float *input = gates, *forget = gates + n, *candidate = gates + 2 * n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float d = dc[i];
        dgates[i] = d * candidate[i];
        dgates[n + i] = d * previous[i];
        dgates[2 * n + i] = d * input[i];
        dgates[3 * n + i] = dh[i] * shown[i];
        dc[i] = d * forget[i];
    }
}

/* gates z, r, h: state = z previous + (1 - z) h */
static void gru_state(int64_t n, const float *gates, const float *previous, float *state) {
    const float *update = gates, *candidate = gates + 2 * n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        state[i] = candidate[i] + update[i] * (previous[i] - candidate[i]);
    }
}

/* From the gradient of the state (dh) to those of z and h, activated; dh becomes the part that goes
 * straight to the previous state. */
static void gru_state_backward(int64_t n, const float *gates, const float *previous, float *dh,
                               float *dgates) {
    const float *update = gates, *candidate = gates + 2 * n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float d = dh[i];
        dgates[i] = d * (previous[i] - candidate[i]);
        dgates[2 * n + i] = d * (1.0f - update[i]);
        dh[i] = d * update[i];
    }
}

void TD__VARIANT(td__fill_recurrent)(td__kernels_table *table) {
    table->multiply_add = multiply_add;
    table->lstm_cell = lstm_cell;
    table->lstm_cell_backward = lstm_cell_backward;
    table->gru_state = gru_state;
    table->gru_state_backward = gru_state_backward;
}
