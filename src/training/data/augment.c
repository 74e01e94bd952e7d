/* Flips, shifts, turns, zoom and crops are one affine map from the new image back to the old one, read
 * between pixels by bilinear interpolation; brightness and contrast follow. A map that meets pixels
 * exactly (flips, crops) copies them. */
#include "data/augment.h"

#include "base/random.h"
#include "data/streams.h"

#include <math.h>
#include <string.h>

/* What is done to one image. All of it is drawn whether used or not, so that one option does not change
 * what another draws. */
typedef struct change {
    bool flip_x, flip_y;
    double shift_x, shift_y; /* pixels */
    double angle;            /* radians */
    double zoom;             /* 1: none */
    double brightness, contrast;
} change;

/* Uniform in [-most, most). */
static double around(td__random *random, double max) {
    return (2 * td__random_uniform(random) - 1) * max;
}

/* A whole number in [-most, most]. */
static double whole_around(td__random *random, int64_t max) {
    return (double)td__random_below(random, 2 * (uint64_t)max + 1) - (double)max;
}

static change draw(const td_augment *a, td__random *random, const td_shape *shape) {
    bool x = td__random_next(random) >> 63, y = td__random_next(random) >> 63;
    double height = (double)shape->dims[0], width = (double)shape->dims[1];
    change c = {.flip_x = x && (a->flip == TD_FLIP_HORIZONTAL || a->flip == TD_FLIP_BOTH),
                .flip_y = y && (a->flip == TD_FLIP_VERTICAL || a->flip == TD_FLIP_BOTH)};
    c.shift_y = around(random, a->shift) * height;
    c.shift_x = around(random, a->shift) * width;
    c.shift_y += whole_around(random, a->crop);
    c.shift_x += whole_around(random, a->crop);
    c.angle = around(random, a->rotate) * 2 * acos(-1);
    c.zoom = 1 + around(random, a->zoom);
    c.brightness = around(random, a->brightness);
    c.contrast = 1 + around(random, a->contrast);
    return c;
}

static bool moves(const td_augment *a) {
    return a->flip || a->shift != 0 || a->crop || a->rotate != 0 || a->zoom != 0;
}

bool td__augment_is_on(const td_augment *a) {
    return moves(a) || a->brightness != 0 || a->contrast != 0;
}

td_status td__augment_check(const td_augment *a, const td_shape *input, const td_shape *label,
                            td_error *error) {
    char text[TD_SHAPE_TEXT_SIZE];
    if (!td__augment_is_on(a)) {
        return TD_OK;
    }
    const double shares[] = {a->shift, a->rotate, a->zoom, a->brightness, a->contrast};
    bool sound = a->crop >= 0 && (unsigned)a->flip <= TD_FLIP_BOTH &&
                 (unsigned)a->fill <= TD_FILL_WRAP && a->shift <= 1 && a->rotate <= 1 &&
                 a->zoom < 1 && a->contrast <= 1;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        sound = sound && shares[i] >= 0 && isfinite(shares[i]);
    }
    if (!sound) {
        return td_error_set(error, TD_RANGE,
                            "augment: shares are from 0 to 1 (zoom: below 1), brightness and crop "
                            "0 or more");
    }
    if (input->rank != 2 && input->rank != 3) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "augment: examples of shape %s are no images (height, width, "
                            "channels); see data.input",
                            td_shape_text(input, text));
    }
    if (moves(a) && label->rank >= 2) {
        return td_error_set(error, TD_INVALID,
                            "augment: labels of shape %s would not move with their images; only "
                            "brightness and contrast are available",
                            td_shape_text(label, text));
    }
    if (a->crop > input->dims[0] || a->crop > input->dims[1]) {
        return td_error_set(error, TD_RANGE, "augment: crop of %lld is more than images of %s have",
                            (long long)a->crop, td_shape_text(input, text));
    }
    return TD_OK;
}

/* Which pixel of n stands for one at i; -1: none. reflect: d c b a | a b c d | d c b a. */
static int64_t inside(td_fill fill, int64_t i, int64_t n) {
    if (i >= 0 && i < n) {
        return i;
    }
    switch (fill) {
    case TD_FILL_NEAREST:
        return i < 0 ? 0 : n - 1;
    case TD_FILL_CONSTANT:
        return -1;
    case TD_FILL_WRAP:
        return (i % n + n) % n;
    default:
        i = (i % (2 * n) + 2 * n) % (2 * n);
        return i < n ? i : 2 * n - 1 - i;
    }
}

/* One pixel between others: from (height, width, channels). */
static void sample(const float *from, int64_t height, int64_t width, int64_t channels, td_fill fill,
                   double y, double x, float *to) {
    double top = floor(y), left = floor(x);
    memset(to, 0, (size_t)channels * sizeof *to);
    for (int corner = 0; corner < 4; corner++) {
        int64_t down = corner / 2, right = corner % 2;
        double weight = (down ? y - top : 1 - (y - top)) * (right ? x - left : 1 - (x - left));
        int64_t row = weight > 0 ? inside(fill, (int64_t)top + down, height) : -1;
        int64_t column = weight > 0 ? inside(fill, (int64_t)left + right, width) : -1;
        const float *pixel = from + (row * width + column) * channels;
        for (int64_t k = 0; row >= 0 && column >= 0 && k < channels; k++) {
            to[k] += (float)weight * pixel[k];
        }
    }
}

static void move_image(const change *c, td_fill fill, const float *from, int64_t height,
                       int64_t width, int64_t channels, float *to) {
    double middle_y = (double)(height - 1) / 2, middle_x = (double)(width - 1) / 2;
    double cosine = cos(c->angle) / c->zoom, sine = sin(c->angle) / c->zoom;
    for (int64_t y = 0; y < height; y++) {
        for (int64_t x = 0; x < width; x++) {
            double v = (double)y - middle_y - c->shift_y, u = (double)x - middle_x - c->shift_x;
            double sy = cosine * v + sine * u, sx = cosine * u - sine * v;
            sample(from, height, width, channels, fill, (c->flip_y ? -sy : sy) + middle_y,
                   (c->flip_x ? -sx : sx) + middle_x, to + (y * width + x) * channels);
        }
    }
}

/* (x - mean) * contrast + mean + brightness, by channel. */
static void light(const change *c, int64_t pixels, int64_t channels, float *image) {
    for (int64_t k = 0; k < channels; k++) {
        double sum = 0;
        for (int64_t i = 0; i < pixels; i++) {
            sum += (double)image[i * channels + k];
        }
        double mean = sum / (double)pixels;
        for (int64_t i = 0; i < pixels; i++) {
            float *value = &image[i * channels + k];
            *value = (float)(((double)*value - mean) * c->contrast + mean + c->brightness);
        }
    }
}

void td__augment_image(const td_augment *a, uint64_t seed, uint64_t epoch, int64_t row,
                       const td_shape *shape, const float *from, float *to) {
    int64_t height = shape->dims[0], width = shape->dims[1];
    int64_t channels = shape->rank == 3 ? shape->dims[2] : 1;
    td__random random;
    td__random_seed(&random, seed ^ (epoch * 0x9E3779B97F4A7C15u),
                    TD__STREAM_AUGMENT + (uint64_t)row);
    change c = draw(a, &random, shape);
    if (moves(a)) {
        move_image(&c, a->fill, from, height, width, channels, to);
    } else {
        memcpy(to, from, (size_t)(height * width * channels) * sizeof *to);
    }
    if (a->brightness != 0 || a->contrast != 0) {
        light(&c, height * width, channels, to);
    }
}
