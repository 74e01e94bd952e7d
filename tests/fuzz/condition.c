/* Conditions: whatever parses can be asked about signals. */
#include "deck/condition.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = 0;
    td_error error = {0};
    td__condition *condition = td__condition_parse(text, &error);
    if (!condition != (error.status != TD_OK)) {
        abort();
    }
    static td_signal signals[] = {{.name = "loss", .value = 2, .value_serial = 1},
                                  {.name = "hidden.error", .stats_serial = 1}};
    for (int i = 0; condition && i < 2; i++) {
        bool uses = false, stats = false;
        (void)td__condition_meet(condition, &signals[i], &uses, &stats);
    }
    for (uint64_t serial = 1; condition && serial < 4; serial++) {
        td__moment now = {1, (int64_t)serial, serial};
        signals[0].value_serial = serial;
        td__condition_update(condition, &now);
        (void)td__condition_holds(condition, &now);
    }
    td__condition_destroy(condition);
    free(text);
    return 0;
}
