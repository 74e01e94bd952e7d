#include "labelled.h"

#include <string.h>

int read_labelled(const command *cmd, labelled *of, int operands) {
    const char *batch = of->texts[0], *scale = of->texts[1], *layout = of->texts[2];
    const char *memory = of->texts[3], *header = of->texts[4];
    if (operands != (of->input_count ? 1 : 2)) {
        return misuse(cmd, "expected MODEL and DATA, or MODEL and --input");
    }
    if (of->output_label_count == 1 && !strchr(of->label_texts[0], '=')) {
        of->labels = of->label_texts[0];
        of->output_label_count = 0;
    }
    int wrong = split_pairs(cmd, "input", of->input_count, of->input_texts, of->inputs);
    wrong = wrong ? wrong
                  : split_pairs(cmd, "labels", of->output_label_count, of->label_texts,
                                of->output_labels);
    if (wrong) {
        return wrong;
    }
    if (batch && !whole_number(batch, &of->batch)) {
        return misuse(cmd, "--batch: expected a whole number of at least 1");
    }
    if (layout && !layout_word(layout, &of->layout)) {
        return misuse(cmd, "--layout: expected channels_first or channels_last");
    }
    if (header && !header_word(header, &of->header)) {
        return misuse(cmd, "--header: expected true or false");
    }
    if (scale && !plain_number(scale, &of->scale)) {
        return misuse(cmd, "--scale: expected a number that is not 0");
    }
    if (memory && !td_parse_bytes(memory, &of->memory)) {
        return misuse(cmd, "--memory: expected a number of bytes (500M, 2GiB, 500MB)");
    }
    return EXIT_GOOD;
}
