/* Images scaled to one size, each channel by itself: bilinear, where an image becomes smaller over all pixels that a new
 * one covers (a triangle as wide as the scale), in whole numbers, first along the side that becomes smaller: the same bytes
 * on every machine, those of Pillow 13's Image.resize(BILINEAR). */
#include "data/resize.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 22 }; /* of a weight; the sum of 255 times all of them fits 32 bits */

/* Which pixels of a line each new one is made of. */
typedef struct line {
    int64_t count;    /* of new pixels */
    int64_t room;     /* weights of each */
    int64_t *first;   /* of the old pixels, for each new one … */
    int64_t *taken;   /* … and how many */
    int32_t *weights; /* room for each new one */
} line;

static void release_line(line *l) {
    td__free(l->first);
    td__free(l->taken);
    td__free(l->weights);
}

static int64_t weights_of(double scale) {
    return (int64_t)ceil(fmax(scale, 1)) * 2 + 1;
}

/* The weights of one new pixel, whose centre lies at `centre` among the old ones. */
static void weigh(line *l, int64_t at, double centre, double reach, int64_t size, double *exact) {
    int64_t first = (int64_t)fmax(centre - reach + 0.5, 0);
    int64_t end = (int64_t)fmin(centre + reach + 0.5, (double)size);
    double sum = 0;
    for (int64_t i = first; i < end; i++) {
        double distance = fabs(((double)i - centre + 0.5) * (1 / reach));
        sum += exact[i - first] = distance < 1 ? 1 - distance : 0;
    }
    l->first[at] = first;
    l->taken[at] = end - first;
    for (int64_t i = 0; i < end - first; i++) {
        double share = sum != 0 ? exact[i] / sum : exact[i];
        l->weights[at * l->room + i] = (int32_t)(0.5 + share * (1 << FRACTION_BITS));
    }
}

/* `count` new pixels from the part of `size` old ones that begins and ends at these places. */
static bool make_line(line *l, int64_t count, int64_t size, double begin, double end) {
    double scale = (end - begin) / (double)count, reach = fmax(scale, 1);
    *l = (line){.count = count, .room = weights_of(scale)};
    l->first = td__calloc((size_t)count, sizeof *l->first);
    l->taken = td__calloc((size_t)count, sizeof *l->taken);
    l->weights = td__calloc((size_t)(count * l->room), sizeof *l->weights);
    double *exact = td__calloc((size_t)l->room, sizeof *exact);
    bool good = l->first && l->taken && l->weights && exact;
    for (int64_t i = 0; good && i < count; i++) {
        weigh(l, i, begin + ((double)i + 0.5) * scale, reach, size, exact);
    }
    td__free(exact);
    return good;
}

/* One new line; `step` bytes lie between the pixels of the old one, and as many between those of the new. */
static void scale_line(const line *l, const uint8_t *pixels, uint8_t *out, int64_t step) {
    for (int64_t i = 0; i < l->count; i++) {
        const int32_t *weights = l->weights + i * l->room;
        const uint8_t *at = pixels + l->first[i] * step;
        int32_t sum = 1 << (FRACTION_BITS - 1);
        for (int64_t k = 0; k < l->taken[i]; k++) {
            sum += at[k * step] * weights[k];
        }
        sum >>= FRACTION_BITS;
        out[i * step] = (uint8_t)(sum > UINT8_MAX ? UINT8_MAX : sum);
    }
}

/* The largest part in the middle of the image that has the new one's aspect; edges are float32, as Pillow's are. */
static void choose_part(const td_resize *resize, const td__image_size *from, double rows[2],
                        double columns[2]) {
    double height = (double)from->height, width = (double)from->width;
    double aspect = (double)resize->width / (double)resize->height, part_height = height,
           part_width = width;
    if (resize->crop && width / height >= aspect) {
        part_width = aspect * height;
    } else if (resize->crop) {
        part_height = width / aspect;
    }
    double top = (height - part_height) * 0.5, left = (width - part_width) * 0.5;
    rows[0] = (double)(float)top;
    rows[1] = (double)(float)fmin(top + part_height, height);
    columns[0] = (double)(float)left;
    columns[1] = (double)(float)fmin(left + part_width, width);
}

static void scale_across(const line *l, const uint8_t *pixels, int64_t height, int64_t width,
                         int64_t channels, uint8_t *out) {
    for (int64_t y = 0; y < height; y++) {
        for (int64_t c = 0; c < channels; c++) {
            scale_line(l, pixels + y * width * channels + c, out + y * l->count * channels + c,
                       channels);
        }
    }
}

static void scale_down(const line *l, const uint8_t *pixels, int64_t row, uint8_t *out) {
    for (int64_t x = 0; x < row; x++) {
        scale_line(l, pixels + x, out + x, row);
    }
}

td_status td__resize(const td_resize *resize, const td__image_size *from, const uint8_t *pixels,
                     uint8_t *out, td_error *error) {
    double rows[2], columns[2];
    int64_t height = from->height, width = from->width, channels = from->channels;
    choose_part(resize, from, rows, columns);
    bool down_first = resize->height * width < resize->width * height;
    int64_t between = down_first ? resize->height * width : height * resize->width;
    line across = {0}, down = {0};
    uint8_t *half = td__calloc((size_t)between, (size_t)channels);
    bool good = half && make_line(&across, resize->width, width, columns[0], columns[1]) &&
                make_line(&down, resize->height, height, rows[0], rows[1]);
    if (good && down_first) {
        scale_down(&down, pixels, width * channels, half);
        scale_across(&across, half, resize->height, width, channels, out);
    } else if (good) {
        scale_across(&across, pixels, height, width, channels, half);
        scale_down(&down, half, resize->width * channels, out);
    }
    release_line(&across);
    release_line(&down);
    td__free(half);
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "no memory to scale an image");
}

int64_t td__resize_room(const td_resize *resize, const td__image_size *from) {
    int64_t across = weights_of((double)from->width / (double)resize->width),
            down = weights_of((double)from->height / (double)resize->height);
    int64_t wide = from->height * resize->width, high = resize->height * from->width;
    return (wide > high ? wide : high) * from->channels + resize->width * (4 * across + 16) +
           resize->height * (4 * down + 16);
}
