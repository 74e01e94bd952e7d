/* An open data set: one or two tables, their labels, and which rows belong to which part. */
#ifndef TAPEDECK_DATA_DATASET_H
#define TAPEDECK_DATA_DATASET_H

#include "data/table.h"

typedef struct td__part {
    int table;      /* index of its table */
    uint32_t *rows; /* ascending; NULL: all rows of the table */
    int64_t count;
} td__part;

struct td_dataset {
    td_data_info info;
    td__table tables[2]; /* the training part's and, where it has its own, the validation's */
    int table_count;
    char *paths[2];       /* of the files that have the tables' labels; NULL: generated */
    char *input_paths[2]; /* the same of their inputs; NULL too where inputs have several files */
    bool are_classes;     /* labels are class numbers, or texts that stand for them */
    int32_t *class_of[2]; /* the class of each of a table's texts; NULL: numbers as they are */
    char **class_names;   /* info.classes of them, or NULL */
    td__names remarks;    /* info's */
    td_text *texts;       /* info's; owns the columns' names */
    td_date dates[TD__DATES_MAXIMUM]; /* the same */
    const char **date_parts;          /* the parts of all of them */
    td__part parts[2];                /* by td_part */
    float scale;                      /* 1 unless set */
    float *mean, *deviation;          /* NULL unless standardised */
    bool changed[2]; /* the table's floats have been scaled and standardised in place */
    td_missing missing;
    float *fill;           /* what stands for a missing value of each input; NULL: nothing */
    uint32_t *kept[2];     /* rows of each table that are not dropped; NULL: all */
    int64_t kept_count[2]; /* how many */
    float *label_mean, *label_deviation; /* NULL unless labels are standardised */
    float *class_weight; /* of each class, in the training part; NULL: all the same */
    int64_t class_weight_count;
    int64_t window_length; /* rows of an example; 0: examples are rows */
    bool in_order;
    uint64_t seed;
    size_t memory;      /* bytes of mapped files that the system can be expected to keep */
    td_augment augment; /* of the training part's batches */
};

/* The open file that was read from path, owned by the data set; -1 when it read none there. */
int td__dataset_descriptor(const td_dataset *dataset, const char *path);

/* labels.c: decides what the labels are and checks them. */
td_status td__labels_prepare(td_dataset *dataset, const td_data_options *options, td_error *error);
/* Hands labels that are classes out as values or one-hot instead, and values stored as integers as
 * classes (an error when one is no class number); before batches are made. Nothing else changes. */
td_status td__labels_as(td_dataset *dataset, td_label_kind kind, td_error *error);
/* Whether labels are values that are stored as integers, such as a class for each step. */
bool td__labels_are_whole(const td_dataset *dataset);
/* The label of one row, in info's kind, to a place for info.label's elements. */
void td__label_read(const td_dataset *dataset, int table, int64_t row, void *label);
/* The class that element i of a row's label is. */
int32_t td__label_class(const td_dataset *dataset, int table, int64_t row, int64_t i);
/* Elements and type of one label as handed out. */
int64_t td__label_count(const td_dataset *dataset);
td_dtype td__label_dtype(const td_dataset *dataset);

/* place.c: the text of td_dataset_place for a row of a table. */
const char *td__place(const td_dataset *dataset, int table, int64_t row, char *text, size_t size);
#define TD__PLACE_SIZE 512

/* td_dataset_check_labels of some elements of each row; whole: no fractions either. */
typedef struct td__label_range {
    double minimum, maximum;
} td__label_range;
TD_NODISCARD td_status td__labels_check(const td_dataset *dataset, int64_t first, int64_t count,
                                        td__label_range range, bool whole, td_error *error);

/* measured.c: what depends on all of the data is found out by rank 0 of options->group, if there is one. */
/* Whether this process looks at the data for it. */
bool td__measures_here(const td_data_options *options);
/* The status of rank 0, its text, and, if it is TD_OK, the values that it found, in all processes. */
TD_NODISCARD td_status td__share_measured(const td_data_options *options, td_status status,
                                          void *values, size_t size, td_error *error);
/* The status and its text alone. */
TD_NODISCARD td_status td__share_status(struct td_group *group, td_status status, td_error *error);

/* missing.c: which rows are kept, before the split; what missing values are filled with, after it. */
td_status td__missing_drop(td_dataset *dataset, const td_data_options *options, td_error *error);
td_status td__missing_fill(td_dataset *dataset, const td_data_options *options, td_error *error);

/* weights.c: how much examples count. */
td_status td__weights_prepare(td_dataset *dataset, const td_data_options *options, td_error *error);
bool td__is_weighted(const td_dataset *dataset, td_part part);
float td__weight(const td_dataset *dataset, td_part part, int64_t row);

/* label_scale.c: labels with mean 0 and variance 1; one row's values changed. */
td_status td__label_scale_prepare(td_dataset *dataset, const td_data_options *options,
                                  td_error *error);
void td__label_scale(const td_dataset *dataset, float *values, int64_t count);

/* normalize.c: mean and deviation from the training part, and inputs in memory changed in place. */
td_status td__normalize_prepare(td_dataset *dataset, const td_data_options *options,
                                td_error *error);
/* One row's inputs as batches hand them out. */
void td__input_row(const td_dataset *dataset, int table, int64_t row, float *values);
/* Calls each with every input of the training part as the file has it, the n-th of them. TD_MEMORY
 * when there is none for a row, or why a row cannot be read. */
TD_NODISCARD td_status td__each_training_input(const td_dataset *dataset,
                                               void (*each)(void *user, int64_t n, float *row),
                                               void *user, td_error *error);
/* All rows one after the other when they are in memory as batches hand them out; else NULL. */
const float *td__input_rows(const td_dataset *dataset, int table);

/* layout.c: inputs that have the channels first are read with them last. */
td_status td__layout_prepare(td_dataset *dataset, const td_data_options *options, td_error *error);

/* batches.c: which examples of each batch are read. */
typedef struct td__batch_share {
    int64_t first, end,
        parts; /* of this many equal parts, these; where they are empty: the first example */
    bool all_labels;
} td__batch_share;
/* The order stays that of all examples; inputs, labels and weights of those that are not read are any numbers. */
void td__batches_share(td_batches *batches, const td__batch_share *share);
/* Of a mapped file nothing but the rows of batches is read. */
void td__batches_scatter(td_batches *batches);

/* window.c */
td_status td__window_prepare(td_dataset *dataset, const td_data_options *options, td_error *error);

/* split.c */
td_status td__split(td_dataset *dataset, const td_data_options *options, td_error *error);
/* split_groups.c: which of total examples are in the validation part, where groups stay together. */
td_status td__split_groups(td_dataset *dataset, const td_data_options *options, int64_t total,
                           bool *chosen, td_error *error);
/* Puts count rows into an order that depends on seed and stream alone. */
void td__shuffle(uint32_t *rows, int64_t count, uint64_t seed, uint64_t stream);

static inline int64_t td__part_row(const td__part *part, int64_t index) {
    return part->rows ? (int64_t)part->rows[index] : index;
}

#endif
