/* A tensor as a picture; see picture.h. libpng is used only here. */
#include "sink/picture.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

enum { ENLARGED = 256, MAXIMUM_ZOOM = 16 };
static const size_t png_maximum = (size_t)1 << 30;

/* How elements lie in the picture: rows x columns tiles of height x width, with the distance
 * between neighbours in each direction. */
typedef struct layout {
    int64_t rows, columns, height, width;
    int64_t row, column, down, right;
    int64_t tiles;   /* the last row may have fewer than columns */
    bool colour;     /* channels are red, green, blue */
    int64_t channel; /* from one to the next */
} layout;

typedef struct scale {
    double low, high; /* shown as the two ends */
    bool diverging;
    bool grey; /* every pixel is */
} scale;

typedef struct pixel {
    uint8_t rgb[3];
} pixel;

bool td__picture_is_kernel(const char *signal) {
    const char *kernel = strstr(signal, "kernel");
    return kernel && (kernel[6] == 0 || kernel[6] == '.') &&
           (kernel == signal || kernel[-1] == '.' || kernel[-1] == '_');
}

/* Bytes are pictures already, and so are values between 0 and 1. */
static scale find_scale(const td_view *view, int64_t count, bool exact) {
    double low = INFINITY, high = -INFINITY;
    bool nan = false;
    for (int64_t i = 0; i < count; i++) {
        double value = td__element(view, i);
        nan = nan || isnan(value);
        if (isfinite(value)) {
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    if (low > high) { /* nothing finite */
        return (scale){.high = 1};
    }
    if (view->dtype == TD_UINT8) {
        return (scale){.high = 255};
    }
    if (exact) {
        bool shares = low >= 0 && high <= 1;
        return (scale){.low = shares ? 0 : low,
                       .high = shares || low == high ? fmax(1, high) : high,
                       .grey = !nan};
    }
    if (low < 0) {
        double end = fmax(-low, high);
        return (scale){.low = -end, .high = end, .diverging = true};
    }
    if (high <= 1 && high > 0.25) {
        return (scale){.high = 1};
    }
    return (scale){.low = low < high ? fmin(low, 0) : 0, .high = high > 0 ? high : 1};
}

static layout find_layout(const td_view *view, td__picture_kind kind, bool negative) {
    int64_t dims[TD_MAX_RANK + 4];
    int32_t rank = view->shape.rank, padded = rank < 3 ? 3 : rank;
    for (int32_t i = 0; i < padded; i++) {
        dims[i] = 1;
    }
    /* [n] and [h, w] have one channel: aligned to the left of it */
    for (int32_t i = 0; i < rank; i++) {
        dims[rank < 3 ? 2 - rank + i : i] = view->shape.dims[i];
    }
    const int64_t *tile = &dims[padded - 3];
    bool first = kind == TD__PICTURE_FIRST && rank >= 3; /* channels lie before pixels */
    int64_t height = tile[first], width = tile[1 + first], channels = tile[first ? 0 : 2];
    int64_t examples = 1, pixels = height * width;
    for (int32_t i = 0; i < padded - 3; i++) {
        examples *= dims[i];
    }
    if (kind == TD__PICTURE_KERNEL && rank == 4) { /* [h, w, in, out] */
        return (layout){.rows = dims[2],
                        .columns = dims[3],
                        .height = dims[0],
                        .width = dims[1],
                        .row = dims[3],
                        .column = 1,
                        .down = dims[1] * dims[2] * dims[3],
                        .right = dims[2] * dims[3]};
    }
    bool colour = channels == 3 && !negative;
    return (layout){.rows = examples,
                    .columns = colour ? 1 : channels,
                    .height = height,
                    .width = width,
                    .row = pixels * channels,
                    .column = first ? pixels : 1,
                    .down = first ? width : width * channels,
                    .right = first ? 1 : channels,
                    .colour = colour,
                    .channel = first ? pixels : 1};
}

/* Many tiles side by side become a grid that is about as high as wide. */
static layout fold_tiles(layout l) {
    enum { FEW = 8 };
    l.tiles = l.rows * l.columns;
    if (l.rows > 1 || l.columns <= FEW) {
        return l;
    }
    l.columns = (int64_t)ceil(sqrt((double)l.tiles));
    l.rows = (l.tiles + l.columns - 1) / l.columns;
    l.row = l.columns * l.column;
    return l;
}

static uint8_t grey_of(const scale *s, double value) {
    double share = (value - s->low) / (s->high - s->low);
    return (uint8_t)lrint(255 * fmin(fmax(share, 0), 1));
}

static pixel colour_of(const scale *s, double value) {
    if (isnan(value)) {
        return (pixel){{0, 255, 0}};
    }
    if (!s->diverging) {
        uint8_t grey = grey_of(s, value);
        return (pixel){{grey, grey, grey}};
    }
    double share = fmin(fmax(value / s->high, -1), 1);
    uint8_t rest = (uint8_t)lrint(255 * (1 - fabs(share)));
    return share < 0 ? (pixel){{rest, rest, 255}} : (pixel){{255, rest, rest}};
}

static pixel pixel_at(const td_view *view, const layout *l, const scale *s, int64_t at) {
    if (!l->colour) {
        return colour_of(s, td__element(view, at));
    }
    pixel p;
    for (int i = 0; i < 3; i++) {
        double value = td__element(view, at + i * l->channel);
        if (isnan(value)) {
            return colour_of(s, value);
        }
        p.rgb[i] = grey_of(s, value);
    }
    return p;
}

/* Row y of the picture; one pixel between tiles. */
static void draw_row(pixel *out, int32_t width, int32_t y, int64_t zoom, const td_view *view,
                     const layout *l, const scale *s) {
    static const pixel gap = {{64, 64, 64}};
    int64_t high = l->height * zoom + 1, wide = l->width * zoom + 1;
    int64_t tile_y = y / high, in_y = y % high / zoom;
    for (int32_t x = 0; x < width; x++) {
        int64_t in_x = x % wide / zoom, tile_x = x / wide;
        bool between = y % high == high - 1 || x % wide == wide - 1 ||
                       tile_y * l->columns + tile_x >= l->tiles;
        out[x] =
            between
                ? gap
                : pixel_at(view, l, s,
                           tile_y * l->row + tile_x * l->column + in_y * l->down + in_x * l->right);
    }
}

static int32_t side_pixels(int64_t tiles, int64_t size, int64_t zoom) {
    int64_t pixels;
    if (__builtin_mul_overflow(tiles, size * zoom + 1, &pixels) || pixels - 1 > TD__PICTURE_SIDE) {
        return TD__PICTURE_SIDE;
    }
    return (int32_t)(pixels - 1);
}

/* --- PNG -------------------------------------------------------------------------------------- */

typedef struct output {
    uint8_t *bytes;
    size_t size, capacity;
} output;

static void put_bytes(png_structp png, png_bytep data, size_t size) {
    output *out = png_get_io_ptr(png);
    if (!td__grow(&out->bytes, &out->capacity, out->size + size, png_maximum, 1)) {
        png_error(png, "out of memory");
    }
    memcpy(out->bytes + out->size, data, size);
    out->size += size;
}

static void put_nothing(png_structp png) {
    (void)png;
}
static void no_warning(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}
static void give_up(png_structp png, png_const_charp text) {
    (void)text;
    png_longjmp(png, 1);
}

/* The picture row by row; false when memory is exhausted. Nothing here changes between setjmp and
 * longjmp but what out points to. */
static bool encode_png(output *out, pixel *row, int32_t width, int32_t height, int64_t zoom,
                       const td_view *view, const layout *l, const scale *s) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, give_up, no_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return false;
    }
    png_set_write_fn(png, out, put_bytes, put_nothing);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8,
                 s->grey ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, 3);
    png_write_info(png, info);
    for (int32_t y = 0; y < height; y++) {
        draw_row(row, width, y, zoom, view, l, s);
        for (int32_t x = 1; s->grey && x < width; x++) {
            ((uint8_t *)row)[x] = row[x].rgb[0];
        }
        png_write_row(png, row->rgb);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return true;
}

td_status td__picture_make(const td_view *view, td__picture_kind kind, td__picture *picture,
                           td_error *error) {
    int64_t count;
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status) {
        return status;
    }
    if (count == 0) {
        return td_error_set(error, TD_BAD_SHAPE, "a tensor without elements has no picture");
    }
    scale s = find_scale(view, count, kind == TD__PICTURE_EXACT);
    layout l = fold_tiles(find_layout(view, kind, s.diverging));
    s.grey = s.grey && !l.colour;
    int64_t largest = l.height > l.width ? l.height : l.width;
    int64_t zoom = ENLARGED / (l.rows * l.columns > 1 ? 4 : 1) / largest;
    zoom = zoom < 1 || kind == TD__PICTURE_EXACT ? 1 : zoom > MAXIMUM_ZOOM ? MAXIMUM_ZOOM : zoom;
    int32_t width = side_pixels(l.columns, l.width, zoom),
            height = side_pixels(l.rows, l.height, zoom);
    while (zoom > 1 && (width == TD__PICTURE_SIDE || height == TD__PICTURE_SIDE)) {
        zoom--; /* rather than leaving examples out */
        width = side_pixels(l.columns, l.width, zoom);
        height = side_pixels(l.rows, l.height, zoom);
    }
    output out = {0};
    pixel *row = td__calloc((size_t)width, sizeof *row);
    if (!row || !encode_png(&out, row, width, height, zoom, view, &l, &s)) {
        td__free(out.bytes);
        td__free(row);
        return td_error_set(error, TD_MEMORY, "out of memory for a picture of %d x %d pixels",
                            width, height);
    }
    td__free(row);
    *picture = (td__picture){width, height, out.bytes, out.size};
    return TD_OK;
}

enum { PNG_WIDTH = 16, PNG_HEIGHT = 20, PNG_HEAD = 24 }; /* where a PNG file has its size */

static int32_t read_side(const uint8_t *bytes) {
    uint32_t side =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return side <= INT32_MAX ? (int32_t)side : 0;
}

/* Of a batch [n, h, w] each example is a picture, none a channel. */
static td_view with_channel(const td_view *view, bool batched) {
    td_view seen = *view;
    const int64_t *dims = view->shape.dims;
    if (batched && view->shape.rank == 3) {
        seen.shape = TD_SHAPE(dims[0], 1, dims[1], dims[2]);
    }
    return seen;
}

td_status td__picture_of(const td_record *record, td__picture *picture, td_error *error) {
    const td_signal_info *info = record->info;
    bool kernel = td__picture_is_kernel(record->signal); /* Keras has them in one way */
    if (!record->png && info && info->channels_first && !kernel) {
        td_view seen = with_channel(record->view, info->batched);
        return td__picture_make(&seen, TD__PICTURE_FIRST, picture, error);
    }
    if (!record->png) {
        return td__picture_make(record->view, kernel ? TD__PICTURE_KERNEL : TD__PICTURE_TENSOR,
                                picture, error);
    }
    if (record->png_size < PNG_HEAD || memcmp(record->png, "\x89PNG\r\n\x1a\n", 8) != 0) {
        return td_error_set(error, TD_FORMAT, "%s: its picture is no PNG", record->signal);
    }
    uint8_t *copy = td__calloc(record->png_size, 1);
    if (!copy) {
        return td_error_set(error, TD_MEMORY, "out of memory for a picture");
    }
    memcpy(copy, record->png, record->png_size);
    *picture = (td__picture){read_side(copy + PNG_WIDTH), read_side(copy + PNG_HEIGHT), copy,
                             record->png_size};
    return TD_OK;
}
