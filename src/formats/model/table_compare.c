/* Two tables of tensors, by name. */
#include "base/memory.h"
#include "model/table.h"
#include "tapedeck/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A name, and where it is in its table. */
typedef struct place {
    const char *name;
    size_t index;
} place;

static int compare_places(const void *left, const void *right) {
    return strcmp(((const place *)left)->name, ((const place *)right)->name);
}

/* Sorted by name; NULL when memory is exhausted. */
static place *places_of(const td_tensor_table *table, size_t count) {
    place *places = td__calloc(count + 1, sizeof *places);
    for (size_t i = 0; places && i < count; i++) {
        places[i] = (place){td_tensor_table_name(table, i), i};
    }
    if (places) {
        qsort(places, count, sizeof *places, compare_places);
    }
    return places;
}

static const place *find_place(const place *places, size_t count, const char *name) {
    const place wanted = {name, 0};
    return count ? bsearch(&wanted, places, count, sizeof wanted, compare_places) : NULL;
}

static void measure_difference(td_tensor_difference *d, double tolerance) {
    int64_t count = 0;
    (void)!td_shape_check(&d->a.shape, d->a.dtype, &count, NULL);
    for (int64_t i = 0; i < count; i++) {
        double x = td_view_element(&d->a, i), y = td_view_element(&d->b, i);
        if (x == y || (isnan(x) && isnan(y))) {
            continue;
        }
        bool finite = isfinite(x) && isfinite(y);
        double larger = fmax(fabs(x), fabs(y));
        double difference = finite ? fabs(x - y) : (double)INFINITY;
        double relative = finite ? difference / larger : (double)INFINITY;
        d->count += relative > tolerance;
        d->largest = difference > d->largest ? difference : d->largest;
        d->relative = relative > d->relative ? relative : d->relative;
    }
}

/* Whether the two of a name differ. */
static bool differ(td_tensor_difference *d, double tolerance) {
    d->comparable = d->a.data && d->b.data && td_shape_equal(&d->a.shape, &d->b.shape);
    if (d->comparable) {
        measure_difference(d, tolerance);
    }
    return !d->comparable || d->count;
}

size_t td_tensor_table_compare(const td_tensor_table *a, const td_tensor_table *b, double tolerance,
                               td_tensor_difference **differences) {
    size_t a_count = td_tensor_table_about(a).count, b_count = td_tensor_table_about(b).count;
    place *in_a = places_of(a, a_count), *in_b = places_of(b, b_count);
    td_tensor_difference *made = td__calloc(a_count + b_count + 1, sizeof *made);
    size_t count = 0;
    bool good = in_a && in_b && made;
    for (size_t i = 0; i < a_count && good; i++) {
        const char *name = td_tensor_table_name(a, i);
        const place *other = find_place(in_b, b_count, name);
        made[count] = (td_tensor_difference){.name = name, .a = td_tensor_table_view(a, i)};
        if (other) {
            made[count].b = td_tensor_table_view(b, other->index);
        }
        count += differ(&made[count], tolerance);
    }
    for (size_t i = 0; i < b_count && good; i++) {
        const char *name = td_tensor_table_name(b, i);
        if (!find_place(in_a, a_count, name)) {
            made[count++] = (td_tensor_difference){.name = name, .b = td_tensor_table_view(b, i)};
        }
    }
    td__free(in_a);
    td__free(in_b);
    if (!good) {
        td__free(made);
        made = NULL;
    }
    *differences = made;
    return count;
}

void td_free_differences(td_tensor_difference *differences) {
    td__free(differences);
}
