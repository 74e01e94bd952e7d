/* What a model says of the data it was trained on, as members of a JSON object: enough to prepare
 * new examples the same way. {"scale": 0.0625, "inputs": ["width", …], "label": ["last"],
 * "label_names": ["species"], "classes": […], "mean": […], "deviation": […], …} */
#ifndef TAPEDECK_DATA_NOTES_H
#define TAPEDECK_DATA_NOTES_H

#include "tapedeck/data.h"

struct json_t;

/* Texts are the JSON object's. */
typedef struct td__data_notes {
    double scale;
    td_names inputs, label, label_names, ignore, classes, categories;
    const char *x, *y, *images;
    td_missing missing;
    float *fill;
    int64_t fill_count;
    float *mean, *deviation;
    int64_t normal_count;
    float *label_mean, *label_deviation;
    int64_t label_normal_count;
    td_window window;
    td_resize resize;
    td_texts text; /* with their vocabularies */
    td_dates dates;
    td_pieces input_pieces, label_pieces; /* columns or arrays; of what were files, their names */
    const char **texts;                   /* owns the lists */
    td_piece *pieces;                     /* the same */
    td_text *texts_of, *matched;          /* the same: text; td__data_notes_match's */
    td_date *dates_of, *matched_dates;    /* the same: dates */
} td__data_notes;

/* Adds to the object; false when memory is exhausted. */
bool td__data_notes_write(struct json_t *object, const td_data_options *options,
                          const td_data_info *info);
/* False when the object is malformed or memory exhausted; release it all the same. */
bool td__data_notes_read(td__data_notes *notes, const struct json_t *object);
void td__data_notes_release(td__data_notes *notes);
/* What was found out in training and options leave open, of the columns that both have: vocabularies, …. The list is
 * kept in notes. False when memory is exhausted. */
bool td__data_notes_match(td__data_notes *notes, td_data_options *options);
/* Makes options prepare data as training did. They are borrowed from notes. */
void td__data_notes_apply(const td__data_notes *notes, td_data_options *options);

#endif
