/* The shares of a tensor's finite values that smaller floating-point formats cannot hold, as conversion with
 * rounding to the nearest (ties to even) would make them: 0 instead of a number (underflow), infinity or, in
 * float8_e4m3, NaN (overflow). */
#include "deck/derived.h"

#include "tensor/element.h"

#include <math.h>

typedef struct format {
    double zero;     /* the largest value that becomes 0: half of the smallest one */
    double overflow; /* the smallest that becomes infinite … */
    bool open;       /* … or, open: the largest that does not */
} format;

static const format formats[] = {
    {0x1p-25, 65520, false},        /* float16 */
    {0x1p-134, 0x1.ffp+127, false}, /* bfloat16 */
    {0x1p-10, 464, true},           /* float8_e4m3: of 448 and what would be 480, 448 is even */
    {0x1p-17, 61440, false},        /* float8_e5m2 */
};
enum { FORMATS = sizeof formats / sizeof *formats, CHUNK = 1024 };

typedef struct counts {
    int64_t finite, underflow[FORMATS], overflow[FORMATS];
} counts;

static void count_one(counts *c, double magnitude) {
    if (!isfinite(magnitude)) {
        return;
    }
    c->finite++;
    for (int f = 0; f < FORMATS; f++) {
        const format *to = &formats[f];
        c->underflow[f] += magnitude > 0 && magnitude <= to->zero;
        c->overflow[f] += to->open ? magnitude > to->overflow : magnitude >= to->overflow;
    }
}

/* The thresholds are float32, so that comparisons are exact in it. */
static void count_floats(counts *c, const float *values, int64_t n) {
    int32_t finite = 0;
    for (int64_t i = 0; i < n; i++) {
        finite += fabsf(values[i]) < INFINITY;
    }
    c->finite += finite;
    for (int f = 0; f < FORMATS; f++) {
        const float zero = (float)formats[f].zero;
        const float limit = formats[f].open ? nextafterf((float)formats[f].overflow, INFINITY)
                                            : (float)formats[f].overflow;
        int32_t under = 0, over = 0;
        for (int64_t i = 0; i < n; i++) {
            float magnitude = fabsf(values[i]);
            under += (magnitude > 0) & (magnitude <= zero);
            over += (magnitude >= limit) & (magnitude < INFINITY);
        }
        c->underflow[f] += under;
        c->overflow[f] += over;
    }
}

td_status td__derive_precision(const td_view *view, const td_signal_info *info,
                               double values[TD__DERIVED_MAX], td_error *error) {
    (void)info;
    (void)error;
    counts c = {0};
    int64_t count = td__elements_from(&view->shape, 0);
    bool floats =
        view->dtype == TD_FLOAT32 || view->dtype == TD_FLOAT16 || view->dtype == TD_BFLOAT16;
    for (int64_t i = 0; i < count; i += CHUNK) {
        int64_t n = count - i < CHUNK ? count - i : CHUNK;
        if (floats) {
            float chunk[CHUNK];
            td__copy_floats(chunk, view, i, n);
            count_floats(&c, chunk, n);
        } else {
            for (int64_t k = i; k < i + n; k++) {
                count_one(&c, fabs(td__element(view, k)));
            }
        }
    }
    for (int f = 0; f < FORMATS; f++) {
        values[2 * f] = (double)c.underflow[f] / (double)c.finite; /* NaN where none is finite */
        values[2 * f + 1] = (double)c.overflow[f] / (double)c.finite;
    }
    return TD_OK;
}
