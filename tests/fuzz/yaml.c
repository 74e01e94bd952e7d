/* Any bytes as an experiment document: read, edited, written back and read again. */
#include "experiment/yaml.h"
#include "base/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    td__yaml *yaml = td__yaml_parse("fuzz", (const char *)data, size, &error);
    if (!yaml) {
        return error.text[0] ? 0 : -1;
    }
    (void)!td__yaml_set(yaml, "train.epochs=[1, {a: b}]", &error);
    size_t length = 0;
    char *text = td__yaml_write(yaml, &length);
    td__yaml *again = text ? td__yaml_parse("again", text, length, &error) : NULL;
    if (text && !again) {
        abort(); /* what is written can be read */
    }
    td__yaml_destroy(again);
    td__free(text);
    td__yaml_destroy(yaml);
    return 0;
}
