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
#define LABELLED_OPTIONS(of)                                                                       \
    {.name = "loss", .text = &(of).loss}, {.name = "batch", .text = &(of).texts[0]},               \
        {.name = "label", .text = &(of).label},                                                    \
        {.name = "labels", .list = (of).label_texts, .list_count = &(of).output_label_count},      \
        {.name = "input", .list = (of).input_texts, .list_count = &(of).input_count},              \
        {.name = "scale", .text = &(of).texts[1]}, {.name = "layout", .text = &(of).texts[2]},     \
        {.name = "memory", .text = &(of).texts[3]}, {                                              \
        .name = "header", .text = &(of).texts[4]                                                   \
    }

/* What they mean, once they are parsed and operands are left; misuse's answer, or EXIT_GOOD. */
int read_labelled(const command *cmd, labelled *of, int operands);
/* Copies them to the options of td_gradients_create or td_evaluation_create. */
#define LABELLED_FILL(options, of)                                                                 \
    do {                                                                                           \
        (options)->loss = (of)->loss;                                                              \
        (options)->label = (of)->label;                                                            \
        (options)->labels = (of)->labels;                                                          \
        (options)->inputs = (of)->inputs;                                                          \
        (options)->input_count = (of)->input_count;                                                \
        (options)->output_labels = (of)->output_labels;                                            \
        (options)->output_label_count = (of)->output_label_count;                                  \
        (options)->batch = (of)->batch;                                                            \
        (options)->memory = (of)->memory;                                                          \
        (options)->scale = (of)->scale;                                                            \
        (options)->layout = (of)->layout;                                                          \
        (options)->header = (of)->header;                                                          \
    } while (0)

#endif
