#include "labelled.h"

#include <string.h>

int read_labelled(const command *cmd, labelled *arguments, int operands) {
    const char *batch = arguments->texts[0], *scale = arguments->texts[1],
               *layout = arguments->texts[2];
    const char *memory = arguments->texts[3], *header = arguments->texts[4];
    if (operands != (arguments->input_count ? 1 : 2)) {
        return misuse(cmd, "expected MODEL and DATA, or MODEL and --input");
    }
    if (arguments->output_label_count == 1 && !strchr(arguments->label_texts[0], '=')) {
        arguments->labels = arguments->label_texts[0];
        arguments->output_label_count = 0;
    }
    int wrong = split_pairs(cmd, "input", arguments->input_count, arguments->input_texts,
                            arguments->inputs);
    wrong = wrong ? wrong
                  : split_pairs(cmd, "labels", arguments->output_label_count,
                                arguments->label_texts, arguments->output_labels);
    if (wrong) {
        return wrong;
    }
    if (batch && !whole_number(batch, &arguments->batch)) {
        return misuse(cmd, "--batch: expected a whole number of at least 1");
    }
    if (layout && !layout_word(layout, &arguments->layout)) {
        return misuse(cmd, "--layout: expected channels_first or channels_last");
    }
    if (header && !header_word(header, &arguments->header)) {
        return misuse(cmd, "--header: expected true or false");
    }
    if (scale && !plain_number(scale, &arguments->scale)) {
        return misuse(cmd, "--scale: expected a number that is not 0");
    }
    if (memory && !td_parse_bytes(memory, &arguments->memory)) {
        return misuse(cmd, "--memory: expected a number of bytes (500M, 2GiB, 500MB)");
    }
    return EXIT_GOOD;
}
