/* Drawing whole groups for the validation part, as scikit-learn's GroupShuffleSplit, GroupKFold and StratifiedGroupKFold do:
 * no group is in both parts. Groups come in an order drawn by the seed; each goes where the parts then come
 * nearest to their shares, of all examples or, stratified, of each class. */
#include "base/memory.h"
#include "data/dataset.h"
#include "data/streams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How many examples of a class a group has. */
typedef struct entry {
    uint32_t group;
    int32_t class;
    int64_t count;
} entry;

typedef struct groups {
    entry *entries; /* by group, then by class */
    size_t entry_count;
    uint32_t *order; /* of groups */
    size_t *first;   /* entry of each group; one more behind */
    int64_t *sizes;
    size_t count, classes;
    double *totals; /* of each class */
    double *loads;  /* parts x classes: what each part has so far */
    int64_t *place; /* the part of each group */
} groups;

static uint32_t row_of(const td_dataset *dataset, int64_t i) {
    return dataset->kept[0] ? dataset->kept[0][i] : (uint32_t)i;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_group(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->class > y->class) - (x->class < y->class);
}

/* The different labels, sorted; count receives how many. NULL when memory is exhausted. */
static double *list_classes(const td_dataset *dataset, int64_t total, size_t *count) {
    double *values = td__calloc((size_t)total, sizeof *values);
    *count = 0;
    for (int64_t i = 0; values && i < total; i++) {
        values[i] = td__array_value(&dataset->tables[0].label, row_of(dataset, i), 0);
    }
    if (values) {
        qsort(values, (size_t)total, sizeof *values, by_value);
    }
    for (int64_t i = 0; values && i < total; i++) {
        if (!*count || values[i] > values[*count - 1]) {
            values[(*count)++] = values[i];
        }
    }
    return values;
}

/* Counts the examples of each class in each group; groups get the numbers 0, 1, … by their first. */
static bool count_groups(groups *g, const td_dataset *dataset, int64_t total, bool stratified) {
    double *values = stratified ? list_classes(dataset, total, &g->classes) : NULL;
    g->classes = stratified ? g->classes : 1;
    g->entries = td__calloc((size_t)total, sizeof *g->entries);
    g->totals = td__calloc(g->classes + 1, sizeof *g->totals);
    bool good = g->entries && g->totals && (values || !stratified);
    for (int64_t i = 0; good && i < total; i++) {
        uint32_t row = row_of(dataset, i);
        const double *at = NULL;
        if (stratified) {
            double value = td__array_value(&dataset->tables[0].label, row, 0);
            at = bsearch(&value, values, g->classes, sizeof *values, by_value);
        }
        int32_t class = at ? (int32_t)(at - values) : 0;
        g->entries[i] =
            (entry){(uint32_t)td__array_value(&dataset->tables[0].group, row, 0), class, 1};
        g->totals[class]++;
    }
    td__free(values);
    if (!good) {
        return false;
    }
    qsort(g->entries, (size_t)total, sizeof *g->entries, by_group);
    for (int64_t i = 0; i < total; i++) {
        entry *last = g->entry_count ? &g->entries[g->entry_count - 1] : NULL;
        if (last && !by_group(last, &g->entries[i])) {
            last->count++;
        } else {
            g->count += !last || last->group != g->entries[i].group;
            g->entries[g->entry_count++] = g->entries[i];
        }
    }
    return true;
}

static bool index_groups(groups *g, int64_t parts) {
    g->order = td__calloc(g->count, sizeof *g->order);
    g->first = td__calloc(g->count + 1, sizeof *g->first);
    g->sizes = td__calloc(g->count, sizeof *g->sizes);
    g->place = td__calloc(g->count, sizeof *g->place);
    g->loads = td__calloc((size_t)parts * g->classes, sizeof *g->loads);
    if (!g->order || !g->first || !g->sizes || !g->place || !g->loads) {
        return false;
    }
    size_t group = 0;
    for (size_t i = 0; i < g->entry_count; i++) {
        group += i && g->entries[i].group != g->entries[i - 1].group;
        g->first[group + 1] = i + 1;
        g->sizes[group] += g->entries[i].count;
    }
    for (size_t i = 0; i < g->count; i++) {
        g->order[i] = (uint32_t)i;
    }
    return true;
}

static void release_groups(groups *g) {
    td__free(g->entries);
    td__free(g->order);
    td__free(g->first);
    td__free(g->sizes);
    td__free(g->totals);
    td__free(g->loads);
    td__free(g->place);
}

/* How much nearer a part comes to its share when it gets a group: the squared distances, as shares of each class. */
static double gain(const groups *g, size_t group, size_t part, double share) {
    const double *load = g->loads + part * g->classes;
    double nearer = 0;
    for (size_t i = g->first[group]; i < g->first[group + 1]; i++) {
        const entry *e = &g->entries[i];
        double all = g->totals[e->class];
        double now = load[e->class] / all - share,
               then = (load[e->class] + (double)e->count) / all - share;
        nearer += now * now - then * then;
    }
    return nearer;
}

static void give(groups *g, size_t group, size_t part) {
    for (size_t i = g->first[group]; i < g->first[group + 1]; i++) {
        g->loads[part * g->classes + (size_t)g->entries[i].class] += (double)g->entries[i].count;
    }
    g->place[group] = (int64_t)part;
}

/* Part 1 is the validation part; a group that brings it nearer to its share goes there. */
static void draw_share(groups *g, double share) {
    size_t smallest = g->order[0];
    bool any = false;
    for (size_t i = 0; i < g->count; i++) {
        size_t group = g->order[i];
        bool takes = gain(g, group, 1, share) > 0;
        give(g, group, takes);
        any = any || takes;
        smallest = g->sizes[group] < g->sizes[smallest] ? group : smallest;
    }
    if (!any) {
        g->place[smallest] = 1;
    }
}

typedef struct sized {
    int64_t size;
    uint32_t group, turn;
} sized;

static int by_size(const void *a, const void *b) {
    const sized *x = a, *y = b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size)
                              : (x->turn > y->turn) - (x->turn < y->turn);
}

static bool draw_folds(groups *g, size_t folds) {
    sized *all = td__calloc(g->count, sizeof *all);
    int64_t *filled = td__calloc(folds, sizeof *filled);
    for (size_t i = 0; all && filled && i < g->count; i++) {
        all[i] = (sized){g->sizes[g->order[i]], g->order[i], (uint32_t)i};
    }
    if (all && filled) {
        qsort(all, g->count, sizeof *all, by_size);
    }
    for (size_t i = 0; all && filled && i < g->count; i++) {
        size_t best = 0;
        double best_gain = -INFINITY;
        for (size_t fold = 0; fold < folds; fold++) {
            double nearer = gain(g, all[i].group, fold, 1 / (double)folds);
            bool lighter = nearer == best_gain && filled[fold] < filled[best];
            if (nearer > best_gain || lighter) {
                best = fold;
                best_gain = nearer;
            }
        }
        give(g, all[i].group, best);
        filled[best] += all[i].size;
    }
    bool done = all && filled;
    td__free(all);
    td__free(filled);
    return done;
}

static td_status draw(groups *g, const td_dataset *dataset, const td_data_options *options,
                      int64_t total, td_error *error) {
    int64_t folds = options->folds, parts = folds ? folds : 2;
    if (!count_groups(g, dataset, total, options->split == TD_SPLIT_STRATIFIED) ||
        !index_groups(g, parts)) {
        return td_error_set(error, TD_MEMORY, "no memory to split %lld examples", (long long)total);
    }
    if (g->count < (size_t)parts) {
        return td_error_set(
            error, TD_RANGE,
            "`groups`: column '%.100s' has %zu different values; %lld parts need as "
            "many groups",
            options->groups, g->count, (long long)parts);
    }
    td__shuffle(g->order, (int64_t)g->count, dataset->seed, TD__STREAM_SPLIT);
    if (!folds) {
        draw_share(g, options->validation_share);
    } else if (!draw_folds(g, (size_t)folds)) {
        return td_error_set(error, TD_MEMORY, "no memory to split %lld examples", (long long)total);
    }
    return TD_OK;
}

/* Groups cannot always be shared out as it was asked for. */
static td_status remark_share(td_dataset *dataset, const td_data_options *options, int64_t total,
                              int64_t chosen, td_error *error) {
    double wanted = options->folds ? 1 / (double)options->folds : options->validation_share;
    double share = (double)chosen / (double)total;
    char text[300];
    (void)snprintf(text, sizeof text,
                   "groups of '%.100s' stay together: the validation part has %.3g %% of the "
                   "examples, not %.3g %%",
                   options->groups, 100 * share, 100 * wanted);
    return fabs(share - wanted) > 0.02 && td__names_add(&dataset->tables[0].remarks, text) < 0
               ? td_error_set(error, TD_MEMORY, "no memory for a remark")
               : TD_OK;
}

td_status td__split_groups(td_dataset *dataset, const td_data_options *options, int64_t total,
                           bool *chosen, td_error *error) {
    groups g = {0};
    td_status status = draw(&g, dataset, options, total, error);
    int64_t part = options->folds ? options->fold - 1 : 1, count = 0;
    for (int64_t i = 0; !status && i < total; i++) {
        entry one = {(uint32_t)td__array_value(&dataset->tables[0].group, row_of(dataset, i), 0), 0,
                     0};
        size_t low = 0, high = g.count; /* the last group that begins at one or before */
        while (high - low > 1) {
            size_t middle = (low + high) / 2;
            if (g.entries[g.first[middle]].group <= one.group) {
                low = middle;
            } else {
                high = middle;
            }
        }
        chosen[i] = g.place[low] == part;
        count += chosen[i];
    }
    release_groups(&g);
    return status ? status : remark_share(dataset, options, total, count, error);
}
