/* Windows over images: what pooling and up-sampling share.
 *
 * Windows may hang over the image's border; there they are cut, so that padding never counts.
 */
#ifndef TAPEDECK_TAPE_POOL_H
#define TAPEDECK_TAPE_POOL_H

#include "tape/kernels.h"
#include "tape/op.h"

/* image (batch, height, width, channels), windows (batch, out[0], out[1], channels) */
typedef struct td__pool {
    int64_t batch, size[2], channels; /* size: height, width */
    int64_t window[2], stride[2];
    int64_t before[2]; /* how far the first window hangs over, above and on the left */
    int64_t out[2];
} td__pool;

/* Fills pool from options (may be NULL) and the input; false (and the tape's error) when they do
 * not fit. */
bool td__pool_fit(td_tape *tape, const char *op, const td_tensor *x, const td_pool_options *options,
                  td__pool *pool);
/* One window over the whole image. */
bool td__pool_fit_whole(td_tape *tape, const char *op, const td_tensor *x, td__pool *pool);

/* The operations, for windows that fit: none lies outside the image, none has more than INT32_MAX
 * taps. x is float32 and usable. shape: (batch, out[0], out[1], channels) or as many elements. */
td_tensor *td__max_pool(td_tape *tape, td_tensor *x, const td__pool *pool);
td_tensor *td__average_pool(td_tape *tape, td_tensor *x, const td__pool *pool, td_shape shape);

/* Neighbouring windows of one shape: at image + input lies the first tap of the first one, and at
 * output its result. */
typedef struct td__pool_run {
    int64_t pixels, channels;
    td__window window;
    int64_t input, output;
} td__pool_run;
typedef void td__pool_visit(void *context, const td__pool_run *run);

/* Visits all windows of output rows [begin, end), counted over all images. */
void td__pool_rows(const td__pool *pool, int64_t begin, int64_t end, td__pool_visit *visit,
                   void *context);

/* The way back: visits all windows of images [begin, end). Unless added to, dx ends up set
 * everywhere: where windows neither overlap nor leave gaps visit overwrites (*add is false), and
 * otherwise dx is zero before and visit adds. */
bool td__pool_overwrites(const td__pool *pool, bool add);
void td__pool_images(const td__pool *pool, int64_t begin, int64_t end, bool add, float *dx,
                     td__pool_visit *visit, void *context);

/* y (=|+=) the sum or mean of each window; dx (=|+=) its way back. Over all threads. */
void td__pool_sum(const td__pool *pool, bool mean, const float *x, bool add, float *y);
void td__pool_spread(const td__pool *pool, bool mean, const float *g, bool add, float *dx);

/* Images, or output rows, that are worth a thread. */
int64_t td__pool_worth(const td__pool *pool, int64_t items);

#endif
