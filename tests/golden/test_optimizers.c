/* Every optimizer against PyTorch and, where that has other equations or no such option, Keras:
 * parameters after 20 steps of given gradients. */
#include "golden.h"

#define PARAMETERS 3

/* Settings of the optimizer itself and, in the same line, of clipping and schedule. */
static td_optimizer_options read_options(const golden_item *item) {
    td_error error = {0};
    td_optimizer_options options = {.size = sizeof options};
    td_setting own[GOLDEN_MOST_SETTINGS], schedule[GOLDEN_MOST_SETTINGS];
    size_t own_count = 0, schedule_count = 0;
    const char *schedule_kind = NULL;
    for (size_t i = 0; i < item->count; i++) {
        const td_setting *setting = &item->settings[i];
        if (strcmp(setting->key, "clip_norm") == 0) {
            options.clip_norm = setting->value.number;
        } else if (strcmp(setting->key, "clip_value") == 0) {
            options.clip_value = setting->value.number;
        } else if (strcmp(setting->key, "schedule") == 0) {
            schedule_kind = setting->value.text;
        } else if (schedule_kind) {
            schedule[schedule_count++] = *setting;
        } else {
            own[own_count++] = *setting;
        }
    }
    if (schedule_kind) {
        assert_ok(td_schedule_configure(&options.schedule, schedule_kind, schedule, schedule_count,
                                        &error),
                  error);
    }
    assert_ok(td_optimizer_configure(&options, item->kind, own, own_count, &error), error);
    return options;
}

static const golden_tensor *numbered(const golden_case *c, const char *what, int i) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s.%d", what, i);
    return golden_find(c, name);
}

static void run_case(const golden_case *c) {
    td_error error = {0};
    td_optimizer_options options = read_options(&c->optimizer);
    td_tensor *parameters[PARAMETERS], *gradients[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        const golden_tensor *start = numbered(c, "start", i);
        parameters[i] = td_tensor_from("w", TD_FLOAT32, start->shape, start->values, &error);
        gradients[i] = td_tensor_create("g", TD_FLOAT32, start->shape, &error);
    }
    td_optimizer *optimizer = td_optimizer_create(&options, PARAMETERS, parameters, &error);
    if (!optimizer) {
        fail_msg("%s: %s", c->name, error.text);
    }
    int64_t steps = numbered(c, "gradients", 0)->shape.dims[0];
    for (int64_t t = 0; t < steps; t++) {
        for (int i = 0; i < PARAMETERS; i++) {
            int64_t count = td_tensor_count(gradients[i]);
            memcpy(td_tensor_data(gradients[i]), numbered(c, "gradients", i)->values + t * count,
                   (size_t)count * sizeof(float));
        }
        assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        golden_compare(c->name, numbered(c, "expect", i), parameters[i], 1e-5);
        td_tensor_destroy(parameters[i]);
        td_tensor_destroy(gradients[i]);
    }
    td_optimizer_destroy(optimizer);
}

static void parameters_agree_after_20_steps(void **state) {
    const char *const files[] = {"optimizers.txt", "keras_optimizers.txt"};
    (void)state;
    static golden_case c;
    for (size_t i = 0; i < 2; i++) {
        FILE *file = golden_open(files[i]);
        size_t count = 0;
        for (; golden_next(file, &c); count++) {
            run_case(&c);
            golden_release(&c);
        }
        (void)fclose(file);
        assert_true(count >= 14);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters_agree_after_20_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
