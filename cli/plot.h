/* Pictures of numbers in a terminal: lines in braille dots, heat maps, distributions, tensors. */
#ifndef TAPEDECK_CLI_PLOT_H
#define TAPEDECK_CLI_PLOT_H

#include "tapedeck/run.h"

/* A signal's points; name is borrowed. */
typedef struct series {
    const char *name;
    td_point *points;
    size_t count;
    bool sampled;
} series;

typedef struct canvas {
    int width, height; /* of the whole picture, in characters */
    bool colour;
    bool logarithmic; /* lines: the value's axis */
} canvas;

/* Lines over each other, with axes and, when there are several, a legend. */
void plot_lines(const series *lines, size_t count, const canvas *canvas);
/* A row for each series, time from left to right. */
void plot_heat(const series *rows, size_t count, const canvas *canvas);

/* One histogram of a distribution over time. */
typedef struct slice {
    int64_t step;
    td_histogram histogram; /* of ranges */
} slice;
/* Values upwards, time from left to right, shades for how many. */
void plot_distribution(const slice *slices, size_t count, const canvas *canvas);

/* A tensor's last two dimensions (or three, with the last as channels) as pictures,
 * side by side. */
void plot_tensor(const td_view *view, const canvas *canvas);

#endif
