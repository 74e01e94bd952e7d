/* Data sets: files or generators in, batches of float32 examples out.
 *
 *     td_dataset *digits = td_dataset_open(
 *         TD_DATA(.train = "digits.csv.gz", .label = TD_NAMES("last"), .input = TD_SHAPE(8, 8, 1),
 *                 .scale = 0.0625, .validation_share = 0.2, .batch = 32, .seed = 7), &error);
 *     td_batches *batches = td_batches_create(digits, TD_TRAINING, 0, &error);
 *     for (uint64_t epoch = 1; epoch <= 10; epoch++) {
 *         td_batches_start(batches, epoch);
 *         for (td_batch batch; td_batches_next(batches, &batch);) {
 *             … batch.input, batch.label, batch.rows …
 *         }
 *     }
 *
 * What is read, chosen by what the file is, not by its name alone:
 *   .csv, .csv.gz     RFC 4180; numbers, text only in the label column and in ignored columns
 *   .npy, .npz        any number type, either byte order, C or Fortran order
 *   IDX, IDX .gz      images and labels in two files
 *   a folder          one sub-folder of PNG and JPEG files a class, all images of one size
 *   .generate         synthetic sets, no file at all
 *
 * NPY and uncompressed IDX files are mapped, never loaded: they may be larger than memory, and must
 * not be cut short while the data set is open. A large CSV is parsed once into a cache file.
 *
 * A data set does not change once open, whether it is still being read or not; any number of threads may read it. A td_batches belongs to
 * one thread at a time.
 */
#ifndef TAPEDECK_DATA_H
#define TAPEDECK_DATA_H

#include "tapedeck/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_dataset td_dataset;
typedef struct td_batches td_batches;

/* A list of names; borrowed. */
typedef struct td_names {
    const char *const *items;
    size_t count;
} td_names;

/* TD_NAMES("width", "height") */
#define TD_NAMES(...) TD_LIST(td_names, const char *, __VA_ARGS__)

/* One of several inputs or labels of an example, as a model has them by name, and where it comes from:
 * columns of a CSV file; an array of an NPZ file; or else a file of its own. */
typedef struct td_piece {
    const char *name;
    td_names from;    /* columns; or one array of an NPZ file */
    const char *path; /* NPY, IDX: a file of its own; NULL where `from` says it all */
} td_piece;

typedef struct td_pieces {
    const td_piece *items;
    size_t count; /* 0: there is just one, and nothing to be said of it */
} td_pieces;

typedef enum td_part {
    TD_PART_TRAINING,
    TD_PART_VALIDATION,
    /* Short names. */
    TD_TRAINING = TD_PART_TRAINING,
    TD_VALIDATION = TD_PART_VALIDATION
} td_part;

/* What a label is. Values are part of the binary interface: only ever append. */
typedef enum td_label_kind {
    TD_LABEL_AUTO,    /* CLASS for one text or whole non-negative number an example, else VALUES */
    TD_LABEL_CLASS,   /* int32 class numbers from 0; text becomes classes in alphabetical order */
    TD_LABEL_VALUES,  /* float32, one or more an example; of text, the class numbers */
    TD_LABEL_ONE_HOT, /* float32, one for each class: 1 for the example's class, else 0 */
    TD_LABEL_NONE,    /* leave labels out */
} td_label_kind;

/* How a validation share is drawn. Values are part of the binary interface: only ever append. */
typedef enum td_split {
    TD_SPLIT_RANDOM,
    TD_SPLIT_STRATIFIED, /* of each class the same share */
    TD_SPLIT_END         /* not drawn: the last examples of the file */
} td_split;

typedef enum td_header { TD_HEADER_AUTO, TD_HEADER_YES, TD_HEADER_NO } td_header;

/* What becomes of missing values: empty cells and the like in CSV files, NaN elsewhere. */
typedef enum td_missing {
    TD_MISSING_REFUSED, /* CSV: an error that counts them; elsewhere NaN stays NaN */
    TD_MISSING_MEAN,    /* the mean of their input over the training part */
    TD_MISSING_DROP,    /* examples that have any are left out */
    TD_MISSING_VALUE,   /* missing_value */
} td_missing;

/* Synthetic data; zero is each field's default. Which generator takes which field is in
 * docs/data.md; td_generate_set knows too. */
typedef struct td_generate_options {
    const char *name; /* adding, sine, xor, blobs, two_moons, images; NULL: none */
    int64_t examples; /* 1000 */
    int64_t length;   /* time steps (adding 50, sine 20) */
    int64_t classes;  /* blobs 3, images 4 (at most 6) */
    int64_t features; /* blobs 2 */
    int64_t size;     /* height and width (images 16) */
    double noise;     /* standard deviation of noise added to the inputs; none */
    double spread;    /* standard deviation within a blob; 1 */
} td_generate_options;

/* Where images and sequences have their channels. Pictures in folders have them last anyway. */
typedef enum td_layout {
    TD_LAYOUT_AS_IS, /* nothing is known of it, nothing is moved */
    TD_LAYOUT_CHANNELS_LAST,
    TD_LAYOUT_CHANNELS_FIRST,
    TD_LAYOUT_FIRST_IF_FITS /* first, unless only last fits what a model takes; a remark says which */
} td_layout;

typedef enum td_flip { TD_FLIP_NONE, TD_FLIP_HORIZONTAL, TD_FLIP_VERTICAL, TD_FLIP_BOTH } td_flip;
/* What stands beyond the border: the image again, mirrored; its last pixel; 0; the other side. */
typedef enum td_fill { TD_FILL_REFLECT, TD_FILL_NEAREST, TD_FILL_CONSTANT, TD_FILL_WRAP } td_fill;

/* Images (height, width, channels) of the training part, changed at random in each epoch, by seed,
 * epoch and row alone. 0: not at all. */
typedef struct td_augment {
    td_flip flip;  /* half of them */
    double shift;  /* by up to this share of height and width */
    double rotate; /* by up to this share of a full turn, either way */
    double zoom;   /* to 1 - zoom … 1 + zoom of the size */
    int64_t crop;  /* by up to this many whole pixels: a border as wide, then cut out at random */
    double brightness; /* up to this is added or taken, in the units that batches have */
    double contrast;   /* 1 - contrast … 1 + contrast times the distance from a channel's mean */
    td_fill fill;
} td_augment;

/* Rows that follow each other in time: an example is `length` of them, from each `stride`-th on, and its label that of
 * the row `horizon` behind its last. */
typedef struct td_window {
    int64_t length; /* 0: every row is an example */
    int64_t
        horizon; /* 0: the label of the window's last row. Otherwise labels that are numbers are inputs too */
    int64_t stride; /* 0: 1 */
} td_window;

/* Images of a folder scaled to one size, bilinear; of what becomes smaller every pixel counts. */
typedef struct td_resize {
    int64_t height, width; /* 0: images keep their size, which must be one */
    bool crop;             /* keep the aspect: what then stands over is cut off on both sides */
} td_resize;

/* What a text is cut into. Values are part of the binary interface: only ever append. */
typedef enum td_tokens { TD_TOKENS_WORDS, TD_TOKENS_CHARACTERS, TD_TOKENS_BYTES } td_tokens;
/* Which letters become small ones. The same holds. */
typedef enum td_lower { TD_LOWER_UNICODE, TD_LOWER_ASCII, TD_LOWER_NONE } td_lower;

/* A column of texts that become ids: 0 behind the last token of a text, 1 for a token that is not in
 * the vocabulary, 2 for the most frequent one, …. A byte has the id byte + 2. */
typedef struct td_text {
    const char *column;
    td_tokens tokens;
    td_lower lower; /* words and characters */
    bool
        punctuation; /* of words and characters: keep ASCII punctuation, which is removed otherwise */
    int64_t length; /* ids of a text: longer ones are cut, shorter ones filled with 0. 0: as many as
                            the longest text of the training file has, at most 256 */
    int64_t vocabulary; /* ids there are at most, 0 and 1 among them; 0: as many as tokens need */
    int64_t min_count;  /* a token that is less often in the training file is unknown; 0: 1 */
    td_names
        words; /* the vocabulary from id 2 on (info's, of another data set); none: it is made of
                            the training file */
} td_text;

typedef struct td_texts {
    const td_text *items;
    size_t count;
} td_texts;

/* What 1/5/2024 is. Values are part of the binary interface: only ever append. */
typedef enum td_date_order {
    TD_DATE_ORDER_AUTO, /* by days above 12 in the file; an error when there are none */
    TD_DATE_DAY_FIRST,
    TD_DATE_MONTH_FIRST
} td_date_order;

/* A column of dates, which become numbers: year, month, day, weekday (Monday is 0), day_of_year, hour, minute, second;
 * month_sin, month_cos and the same of weekday, day_of_year and hour: where in its cycle it is; days: since. */
typedef struct td_date {
    const char *column;
    td_names
        parts; /* none: year, month, day, weekday, their cycles and days; hours where the training
                       file has any */
    td_date_order order;
    bool has_since;
    int64_t
        since; /* seconds since 1970-01-01 UTC that days begin at; else at the first day of the training file */
} td_date;

typedef struct td_dates {
    const td_date *items;
    size_t count;
} td_dates;

/* Everything the `data:` section of an experiment file can say. Zero is each field's default; all
 * pointers are borrowed for the duration of the call. */
typedef struct td_data_options {
    size_t size;                   /* sizeof(td_data_options); TD_DATA fills it in */
    const char *train;             /* file or folder */
    td_generate_options generate;  /* instead of train */
    const char *labels;            /* NPY, IDX: the file of labels. IDX default: the file whose name
                                      has "labels" for "images" and "idx1" for "idx3", if there */
    const char *validation;        /* a file or folder of its own, of the same format … */
    const char *validation_labels; /* … and its labels */
    double validation_share;       /* or: this share of the examples, drawn by seed */
    td_shape input;                /* shape of one example; rank 0: as the file has it */
    td_names label;                /* CSV, 2-D NPY: columns that are labels; the rest are inputs. A
                                      file without header has columns 0, 1, …; "last" is the last
                                      column unless one has that name */
    td_names ignore;               /* CSV: columns to leave out */
    td_label_kind label_kind;
    td_header header;  /* CSV: whether the first line has the columns' names */
    const char *x, *y; /* NPZ: array of inputs ("x") and of labels ("y", if there) */
    double scale;      /* multiplies inputs; 0: 1 */
    bool standardize;  /* each input gets mean 0, variance 1 over the training part;
                          one that never changes becomes 0 */
    /* Standardise with these instead (info's, of another data set). */
    const float *mean, *deviation;
    int64_t normal_count; /* how many of each */
    td_names classes;     /* the classes of text labels and image folders, in order (info's,
                             of another data set); default: found in the file */
    int64_t batch;        /* examples a batch; 0: 32 */
    bool in_order;        /* the file's own order every epoch; default: shuffled */
    uint64_t seed;        /* of shuffling, splitting and generating */
    const char *cache;    /* folder for parsed CSV files and unpacked images; NULL: $TAPEDECK_CACHE,
                             else $XDG_CACHE_HOME/tapedeck, else ~/.cache/tapedeck */
    int64_t memory;       /* most bytes that data which cannot be mapped may take (NPZ,
                             compressed IDX, generators); 0: 4 GiB. Images beyond it, and beyond
                             64 MiB, are unpacked to a file of the cache folder. Of a larger
                             mapped file in random order only what is needed is read; 0 is half
                             of the machine's memory there */
    bool input_as_is;     /* input is what a model takes: examples that are no plain rows of numbers
                             must have that shape already, but for dimensions of 1 */
    td_names inputs; /* CSV: the inputs' names in their order (info's, of another data set). In a
                             file with a header they decide which column is which input, and only
                             they may be there beside labels and what is ignored; columns to ignore
                             need not be there */
    td_names label_names; /* CSV with a header: what label means (info's, of another data set) */
    td_layout layout;     /* of examples in the file; they are handed out with the channels last */
    td_shape takes;       /* what a model takes, with the channels last; -1: any size. For
                             TD_LAYOUT_FIRST_IF_FITS, and for rows of plain numbers */
    td_names categories;  /* CSV: columns of text, each of which becomes an input for every text it
                             has, COLUMN=TEXT, 1 where it stands and 0 elsewhere; in alphabetical
                             order, or as inputs has them */
    char separator;       /* CSV: ',', ';', tab or '|'; 0: found out from the first two lines */
    td_missing missing;
    double missing_value;
    const float *fill;  /* fill missing values with these (info's, of another data set) … */
    int64_t fill_count; /* … one for each input */
    const char *weight; /* CSV: a column that says how much each example counts; no input */
    td_names weighted_classes;   /* in the training part, how much an example of these counts … */
    const double *class_weights; /* … one for each; others 1 */
    bool balanced; /* or: all classes count alike, examples / (classes * examples of the class) */
    /* Labels that are values get mean 0, variance 1 over the training part. */
    bool standardize_labels;
    const float *label_mean, *label_deviation; /* or with these (info's, of another data set) */
    int64_t label_normal_count;                /* how many of each */
    td_augment augment;
    /* An example of several inputs, or of several labels, is one row of all of them, in this
     * order. Where every input has a file of its own there is no train; validation, a file, has
     * them where train has them, unless the last two say otherwise. */
    td_pieces input_pieces, label_pieces;
    td_pieces validation_input_pieces, validation_label_pieces;
    /* A large CSV file or folder of images is open as soon as its rows and labels are known, and read
     * on by a thread of its own; what a batch needs is read when it is asked for. The numbers are
     * the same, but errors of rows come later: from td_batches_status and td_dataset_read, once they
     * were found. */
    bool while_reading;
    /* CSV, 2-D NPY: windows of rows. A validation share is then the end of the file, not drawn. */
    td_window window;
    td_names more; /* CSV: further files of train, with the same columns: their rows follow */
    td_split split;
    int64_t
        folds; /* instead of a share: the examples are cut into this many parts, drawn by split … */
    int64_t fold;     /* … and this one, from 1, is the validation part; 0: 1 */
    td_resize resize; /* folders of images */
    /* CSV: processes (group.h) that open the same data at the same time, with the same options but for cache, and in the
     * same order. Each parses a part of a large file; NULL: this process alone. A process that fails on its own
     * notifies the others by td_group_fail. */
    struct td_group *group;
    td_texts text; /* CSV: columns of text, each of which becomes `length` inputs, COLUMN[0], … */
    const char
        *groups; /* CSV: a column, no input; examples with the same value in it stay together, in
                           the training part or in the validation part */
    td_dates
        dates; /* CSV: columns of dates, each of which becomes an input for each part, COLUMN.year, … */
    const char
        *images; /* CSV: a column of the paths of images, relative to the file; an example is the
                           image, and columns that are neither labels nor ignored are left out */
} td_data_options;

#define TD_DATA(...) TD_OPTIONS(td_data_options, __VA_ARGS__)

/* Sets a generator's field by its name, for example ("length", 50), as an experiment file has it.
 * TD_NOT_FOUND when options->name takes no such field, TD_RANGE for a value it cannot have; the
 * text says what would do. */
TD_API TD_NODISCARD td_status td_generate_set(td_generate_options *options, const char *field,
                                              double value, td_error *error);

/* NULL on failure: TD_NOT_FOUND (file, column, array), TD_FORMAT (malformed, with file, line, row
 * and column), TD_BAD_SHAPE, TD_RANGE, TD_UNSUPPORTED, TD_INVALID, TD_IO, TD_MEMORY. */
TD_API td_dataset *td_dataset_open(const td_data_options *options, td_error *error);
/* Accepts NULL. Batches made from it must be destroyed before. */
TD_API void td_dataset_close(td_dataset *dataset);

/* One of several inputs or labels: elements first to first + count of a row. */
typedef struct td_data_piece {
    const char *name;
    td_shape shape; /* as its file has it */
    int64_t first, count;
} td_data_piece;

/* Pointers live as long as the data set. */
typedef struct td_data_info {
    td_shape input;                 /* of one example */
    td_label_kind label_kind;       /* never TD_LABEL_AUTO */
    td_shape label;                 /* of one example's label: rank 0 for a class number */
    int64_t classes;                /* 0 when labels are no classes */
    const char *const *class_names; /* NULL when the classes are just numbers */
    int64_t training, validation;   /* examples in each part */
    const float *mean, *deviation;  /* of each input element; NULL unless standardised */
    int64_t normal_count;           /* how many of each */
    int64_t batch;                  /* as the options have it */
    td_names inputs;                /* name of each input; none when the file has no names */
    td_names label_names;           /* columns that are labels; none when the file has no names */
    td_names remarks;  /* what should be said of how files were read, a sentence each */
    const float *fill; /* what stands for a missing value of each input; NULL unless filled */
    int64_t fill_count;
    const float *label_mean, *label_deviation; /* of each label value; NULL unless standardised */
    int64_t label_normal_count;
    const td_data_piece *input_pieces, *label_pieces; /* as the options have them */
    size_t input_piece_count, label_piece_count;
    td_texts text;  /* as the options have it, with lengths and vocabularies */
    td_dates dates; /* the same, with what was found out of the training file */
} td_data_info;

TD_API const td_data_info *td_dataset_info(const td_dataset *dataset);

/* Reads any examples of a part: the numbers in rows are rows of the file (from 0, without its
 * header), as td_batch has them. input holds count examples, label (may be NULL) count labels of
 * info's kind. TD_RANGE for a row outside the file. */
TD_API TD_NODISCARD td_status td_dataset_read(const td_dataset *dataset, td_part part,
                                              const int64_t *rows, int64_t count, float *input,
                                              void *label, td_error *error);
/* The rows of a part in the file's order: first, first + 1, …; at most count are written. Returns
 * how many were. */
TD_API int64_t td_dataset_rows(const td_dataset *dataset, td_part part, int64_t first,
                               int64_t count, int64_t *rows);

/* Where a row's inputs are, for people: "digits.csv line 5 (row 4)", "x.npy row 4". Rows count
 * from 1 in it. The line of a CSV file is found by reading it again. */
TD_API void td_dataset_place(const td_dataset *dataset, td_part part, int64_t row, char *text,
                             size_t size);

/* The file that a row is, below the folder of images that was read: "cat/01.png"; NULL when its file
 * has other rows too. Valid as long as the data set. */
TD_API const char *td_dataset_file(const td_dataset *dataset, td_part part, int64_t row);

/* Looks at every label of both parts: TD_RANGE, with place and value of the first, when one is no
 * finite number from minimum to maximum. Class numbers are numbers too. */
TD_API TD_NODISCARD td_status td_dataset_check_labels(const td_dataset *dataset, double minimum,
                                                      double maximum, td_error *error);

/* Valid until the next call on the same td_batches. Never NULL data; label.data is NULL for
 * TD_LABEL_NONE. */
typedef struct td_batch {
    int64_t count;       /* examples; only the last batch of an epoch may have fewer than `batch` */
    int64_t index;       /* number of the batch within the epoch, from 0 */
    td_view input;       /* float32 (count, …info.input) */
    td_view label;       /* int32 or float32 (count, …info.label) */
    const int64_t *rows; /* each example's row in its file, from 0 */
    td_view weight;      /* float32 (count,): how much each counts; data is NULL: all the same */
} td_batch;

/* Batches of one part, at the start of epoch 1; batch 0 means the data set's own. The training part
 * is shuffled unless in_order, the validation part never is. NULL on failure. */
TD_API td_batches *td_batches_create(const td_dataset *dataset, td_part part, int64_t batch,
                                     td_error *error);
TD_API void td_batches_destroy(td_batches *batches);

/* To the start of an epoch. Its order is a function of the data set, its seed and the epoch alone,
 * whatever was read before. */
TD_API void td_batches_start(td_batches *batches, uint64_t epoch);
/* Batches in an epoch, the last short one included. */
TD_API int64_t td_batches_count(const td_batches *batches);
/* Makes td_batches_next go on with this batch (from 0) of the current epoch; at or past the end,
 * it returns false. */
TD_API void td_batches_seek(td_batches *batches, int64_t index);
/* False at the end of the epoch, and when an example cannot be read (options.while_reading). Allocates
 * nothing, once all examples have been read. Points into the data set itself when that has
 * the batch as it is, otherwise into the batches' own buffer. */
TD_API bool td_batches_next(td_batches *batches, td_batch *batch);
/* Why td_batches_next could not read an example, and never will; TD_OK: that did not happen. */
TD_API TD_NODISCARD td_status td_batches_status(const td_batches *batches, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
