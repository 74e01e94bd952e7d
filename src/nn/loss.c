/* The options of losses as keys and values; their equations are in tape/ops/loss.c. */
#include "base/memory.h"
#include "base/options.h"
#include "nn/field.h"

#include <stdio.h>

#define ROW(member, least, most)                                                                   \
    {                                                                                              \
        .key = #member, .type = TD__FIELD_FLOAT, .offset = offsetof(td_loss_options, member),      \
        .minimum = least, .maximum = most                                                          \
    }

static const td__field fields[] = {
    ROW(delta, 1e-30, 1e30),
    ROW(label_smoothing, 0, 1),
    ROW(gamma, 1e-30, 100),
    ROW(alpha, 1e-30, 1),
    {.key = "balanced", .type = TD__FIELD_BOOL, .offset = offsetof(td_loss_options, balanced)},
};

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
