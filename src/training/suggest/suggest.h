/* What is known about a data set before anybody described it, and what was guessed from that. */
#ifndef TAPEDECK_SUGGEST_SUGGEST_H
#define TAPEDECK_SUGGEST_SUGGEST_H

#include "data/profile.h"
#include "tapedeck/suggest.h"

#include <stdio.h>

typedef struct td__guess {
    const td_suggest_options *options;
    td__names *sentences; /* what was guessed, and why */
    /* The data. */
    td__profile profile;  /* CSV only; no columns otherwise */
    int *roles;           /* td__role of each column */
    char *labels;         /* a file of labels that was found; NULL: options->labels */
    td_shape input;       /* of one example */
    int64_t texts;        /* columns of text, one of ids each */
    bool pictures;        /* a column names images */
    bool grouped;         /* a column names groups */
    bool reshaped;        /* input is not what the file has: a row of pixels is an image */
    int64_t rows, inputs; /* examples, and numbers in each */
    double scale;         /* of inputs; 0: they are standardised */
    const char *missing;  /* "mean", "drop", or NULL */
    /* What is learned. */
    bool unlabelled; /* nothing: the model puts out what it was given */
    int64_t classes; /* 0: values */
    int64_t values;  /* numbers in a label */
    /* Of a given model. */
    bool binary;        /* one output distinguishes two classes */
    bool probabilities; /* it ends in softmax or sigmoid */
} td__guess;

typedef enum td__role {
    TD__ROLE_INPUT,
    TD__ROLE_CATEGORY,
    TD__ROLE_LABEL,
    TD__ROLE_TEXT,
    TD__ROLE_DATE,
    TD__ROLE_GROUP,
    TD__ROLE_IMAGE,
    TD__ROLE_IGNORED
} td__role;

/* Too few examples for a network of several layers, and to give a fifth of them away. */
static inline bool td__guess_is_small(const td__guess *guess) {
    return guess->rows < 1000;
}

/* TD_INVALID when there are fewer than ten examples. */
TD_NODISCARD td_status td__guess_enough(const td__guess *guess, td_error *error);
/* Adds a sentence to what was guessed; false when memory is exhausted. */
bool td__guess_note(td__guess *guess, const char *format, ...) TD_PRINTF(2, 3);

/* What each column of a CSV file is for. */
TD_NODISCARD td_status td__guess_columns(td__guess *guess, td__input *input, td_error *error);
/* Arrays and folders of images. */
TD_NODISCARD td_status td__guess_arrays(td__guess *guess, td_error *error);

/* Several inputs: a column of text, and what is beside it. */
static inline bool td__guess_is_mixed(const td__guess *guess) {
    return guess->texts > 1 || (guess->texts && guess->inputs);
}
/* Writes the model's layers: lines of a YAML list. */
void td__write_layers(FILE *out, const td__guess *guess);
/* A text as YAML reads it back: with quotes where it needs them. */
void td__write_word(FILE *out, const char *text);

#endif
