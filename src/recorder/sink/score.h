/* Predictions of classes: which class a row of scores means, and what it is called. */
#ifndef TAPEDECK_SINK_SCORE_H
#define TAPEDECK_SINK_SCORE_H

#include "base/number.h"
#include "sink/text.h"
#include "tapedeck/deck.h"
#include "tensor/element.h"

#include <string.h>

/* Returns true when rows of that many columns are scores: one per class, or one for two classes. */
static inline bool td__are_scores(const td_signal_info *info, int64_t columns) {
    return info && info->classes > 1 &&
           (columns == info->classes || (columns == 1 && info->classes == 2));
}

/* The class of the greatest score, the first of equals; -1 when a score is NaN. */
static inline int64_t td__predicted(const td_signal_info *info, const td_view *scores, int64_t row,
                                    int64_t columns) {
    int64_t best = 0;
    for (int64_t i = 0; i < columns; i++) {
        double score = td__element(scores, row * columns + i);
        if (score != score) {
            return -1;
        }
        best = score > td__element(scores, row * columns + best) ? i : best;
    }
    return columns == 1 ? td__element(scores, row) > info->threshold : best;
}

/* The name of a class; NULL when it has none, or number is no class. */
static inline const char *td__class_name(const td_signal_info *info, double number) {
    bool whole = number >= 0 && number < (double)info->unit_count;
    return whole && number == (double)(size_t)number ? info->units[(size_t)number] : NULL;
}

/* The name of the class that a column scores; NULL when it has none. A single column scores the second of two. */
static inline const char *td__column_class(const td_signal_info *info, int64_t column,
                                           int64_t columns) {
    bool one = columns == 1 && info->unit_count == 2;
    return one || columns == (int64_t)info->unit_count ? info->units[one ? 1 : column] : NULL;
}

/* The header's cell of such a column, class_NAME; returns its length. out has TD__CLASS_COLUMN(strlen(name)) bytes. */
#define TD__CLASS_COLUMN(length) (TD__CSV_CELL((length) + 6) + (length) + 7)
static inline size_t td__class_column(char *out, const char *name) {
    size_t length = strlen(name) + 6;
    char *text =
        stpcpy(out + TD__CSV_CELL(length), "class_") - 6; /* the cell is written in front of it */
    memcpy(text + 6, name, length - 6);
    return td__csv_cell(out, text, length);
}

/* Bytes that the longest name, or a number, takes as a CSV cell. */
static inline size_t td__class_room(const td_signal_info *info) {
    size_t longest = TD__NUMBER_ROOM;
    for (size_t i = 0; i < info->unit_count; i++) {
        size_t length = strlen(info->units[i]);
        longest = length > longest ? length : longest;
    }
    return TD__CSV_CELL(longest) + 1;
}

/* The cell of a class (empty for a negative number) and a comma; returns the end. */
static inline char *td__class_cell(char *out, const td_signal_info *info, double number) {
    const char *name = td__class_name(info, number);
    if (name) {
        out += td__csv_cell(out, name, strlen(name));
    } else if (number >= 0) {
        out += td__format_value(out, number);
    }
    *out++ = ',';
    return out;
}

#endif
