/* The options of losses as keys and values; their equations are in tape/ops/loss.c. */
#include "base/memory.h"
#include "base/options.h"
#include "nn/field.h"

#include <stdio.h>
#include <string.h>

#define ROW(member, usual, min, max)                                                               \
    TD__FIELD(NUMBER, td_loss_options, member, .by_default = usual, .minimum = min,                \
              .maximum = max, .number = (usual) != 0)

static const td__field fields[] = {
    ROW(delta, 1, 1e-30, 1e30),
    ROW(label_smoothing, 0, 0, 1),
    ROW(gamma, 2, 0, 100),
    ROW(alpha, 0.25, 0, 1),
    TD__FIELD(BOOL, td_loss_options, balanced),
    TD__FIELD(BOOL, td_loss_options, from_logits),
};

/* Whether a loss has an option: it takes one that differs from nothing. */
static bool has_option(td_loss loss, const td__field *field) {
    td_loss_options options = {.size = sizeof options};
    td_value value = {.kind = TD_VALUE_NUMBER, .number = 0.5, .boolean = true};
    if (field->type == TD__FIELD_BOOL) {
        value.kind = TD_VALUE_BOOL;
    }
    return !td__field_set(field, &options, &value, NULL) && !td_loss_check(loss, &options, NULL);
}

size_t td__loss_fields(td_loss loss, const td__field *of_loss[TD__LOSS_MAX_FIELDS]) {
    size_t count = 0;
    for (size_t i = 0; i < TD__COUNT(fields); i++) {
        if (has_option(loss, &fields[i])) {
            of_loss[count++] = &fields[i];
        }
    }
    return count;
}

td_status td_loss_configure(td_loss *loss, td_loss_options *options, const char *name,
                            const td_setting *settings, size_t count, td_error *error) {
    td_loss found;
    td_loss_options result;
    (void)td__options(&result, sizeof result, options);
    td_status status = td_loss_find(name, &found, error);
    if (!status) {
        char where[64];
        (void)snprintf(where, sizeof where, "loss %s: ", name);
        status = td__fields_set(fields, TD__COUNT(fields), &result, settings, count, where, error);
    }
    status = status ? status : td_loss_check(found, &result, error);
    if (!status) {
        *loss = found;
        td__options_give(options, &result, sizeof result);
    }
    return status;
}
