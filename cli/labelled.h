/* The options of commands that run a saved model over labelled data: MODEL DATA, or MODEL and --input. */
#ifndef TAPEDECK_CLI_LABELLED_H
#define TAPEDECK_CLI_LABELLED_H

#include "options.h"

typedef struct labelled {
    const char *texts[5]; /* batch, scale, layout, memory, header, as they were given */
    const char *input_texts[MAX_VALUES], *label_texts[MAX_VALUES];
    const char *loss, *label, *labels;
    td_named_file inputs[MAX_VALUES], output_labels[MAX_VALUES];
    size_t input_count, output_label_count;
    int64_t batch, memory;
    double scale;
    td_layout layout;
    td_header header;
} labelled;

/* Rows of the command's table of options. */
#define LABELLED_OPTIONS(arguments)                                                                \
    {.name = "loss", .text = &(arguments).loss}, {.name = "batch", .text = &(arguments).texts[0]}, \
        {.name = "label", .text = &(arguments).label},                                             \
        {.name = "labels",                                                                         \
         .list = (arguments).label_texts,                                                          \
         .list_count = &(arguments).output_label_count},                                           \
        {.name = "input",                                                                          \
         .list = (arguments).input_texts,                                                          \
         .list_count = &(arguments).input_count},                                                  \
        {.name = "scale", .text = &(arguments).texts[1]},                                          \
        {.name = "layout", .text = &(arguments).texts[2]},                                         \
        {.name = "memory", .text = &(arguments).texts[3]}, {                                       \
        .name = "header", .text = &(arguments).texts[4]                                            \
    }

/* What they mean, once they are parsed and operands are left; misuse's answer, or EXIT_GOOD. */
int read_labelled(const command *cmd, labelled *arguments, int operands);
/* Copies them to the options of td_gradients_create or td_evaluation_create. */
#define LABELLED_FILL(options, arguments)                                                          \
    do {                                                                                           \
        (options)->loss = (arguments)->loss;                                                       \
        (options)->label = (arguments)->label;                                                     \
        (options)->labels = (arguments)->labels;                                                   \
        (options)->inputs = (arguments)->inputs;                                                   \
        (options)->input_count = (arguments)->input_count;                                         \
        (options)->output_labels = (arguments)->output_labels;                                     \
        (options)->output_label_count = (arguments)->output_label_count;                           \
        (options)->batch = (arguments)->batch;                                                     \
        (options)->memory = (arguments)->memory;                                                   \
        (options)->scale = (arguments)->scale;                                                     \
        (options)->layout = (arguments)->layout;                                                   \
        (options)->header = (arguments)->header;                                                   \
    } while (0)

#endif
