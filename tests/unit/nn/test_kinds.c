/* Every kind of layer says all that other modules ask it. */
#include "test.h"

#include "nn/kind.h"

static const td__layer_kind *kind_at(int i) {
    return td__layer_kind_of((td_layer_kind)i);
}

static void every_kind_says_all(void **state) {
    (void)state;
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        const td__layer_kind *kind = kind_at(i);
        const char *name = td_layer_kind_name((td_layer_kind)i);
        bool all = kind->role && kind->features && kind->torch.name && kind->keras.storage;
        if (!all || !kind->plan || !kind->forward || !kind->min_from ||
            kind->max_from < kind->min_from) {
            fail_msg("%s does not say all: TD__IS, TD__TORCH, TD__KERAS, plan, forward, inputs",
                     name);
        }
    }
}

/* A member that only some kinds have must be there where the role asks for it. */
static void members_fit_the_role(void **state) {
    (void)state;
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        const td__layer_kind *kind = kind_at(i);
        const char *name = td_layer_kind_name((td_layer_kind)i);
        bool several = kind->max_from > 1;
        bool merges = kind->role == TD__ROLE_MERGE || kind->role == TD__ROLE_JOIN;
        bool bends = kind->acts_as != TD_LINEAR || td__layer_has_option(kind, "function");
        bool wraps = kind->role == TD__ROLE_WRAPPER;
        if ((merges && !several) || (kind->role == TD__ROLE_ACTIVATION) != bends ||
            wraps != kind->wraps || (kind->role == TD__ROLE_LOOKUP) != kind->integer_input ||
            (kind->unit_axis && kind->role != TD__ROLE_LINEAR) ||
            (kind->role == TD__ROLE_DROPOUT && !td__layer_has_option(kind, "rate"))) {
            fail_msg("the members of %s do not fit its role", name);
        }
        if (kind->mask_from != TD__MASK_OF_FIRST && !kind->mask) {
            fail_msg("%s says what its mask is made from, and makes none", name);
        }
    }
}

/* Settings that tables for Keras name are options of the kind. */
static void keras_options_are_ours(void **state) {
    (void)state;
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        const td__layer_kind *kind = kind_at(i);
        for (size_t k = 0; k < kind->keras.option_count; k++) {
            const td__keras_option *option = &kind->keras.options[k];
            bool penalty = option->meaning == TD__KERAS_REGULARIZER;
            char key[64];
            (void)snprintf(key, sizeof key, "%s%s", option->ours ? option->ours : "",
                           penalty ? "_l2" : "");
            if (option->ours && !td__layer_has_option(kind, key)) {
                fail_msg("%s has no option '%s', which Keras's '%s' is to become",
                         td_layer_kind_name((td_layer_kind)i), key, option->key);
            }
        }
    }
}

static void torch_weights_are_whole(void **state) {
    (void)state;
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        const td__torch_side *torch = &kind_at(i)->torch;
        for (size_t k = 0; k < torch->weight_count; k++) {
            const td__torch_weight *weight = &torch->weights[k];
            unsigned seen = 0;
            for (int32_t axis = 0; axis < weight->rank; axis++) {
                seen |= 1U << weight->axes[axis];
            }
            if (!*torch->name || !weight->from || !weight->to || weight->rank < 1 ||
                seen != (1U << weight->rank) - 1) {
                fail_msg("weight %zu of %s: a name is missing, or its axes are not each there once",
                         k, td_layer_kind_name((td_layer_kind)i));
            }
        }
    }
}

static size_t bytes_of(const td__field *field) {
    static const size_t sizes[] = {
        [TD__FIELD_INTEGER] = sizeof(int64_t),
        [TD__FIELD_PAIR] = sizeof(int64_t[2]),
        [TD__FIELD_TRIPLE] = sizeof(int64_t[3]),
        [TD__FIELD_NUMBER] = sizeof(double),
        [TD__FIELD_SHARE] = sizeof(double),
        [TD__FIELD_BYTES] = sizeof(int64_t),
        [TD__FIELD_BOOL] = sizeof(bool),
        [TD__FIELD_NOT] = sizeof(bool),
        [TD__FIELD_WORD] = sizeof(int),
        [TD__FIELD_TEXT] = sizeof(char *),
        [TD__FIELD_TEXTS] = sizeof(char *[TD_MAX_FROM]),
        [TD__FIELD_SHAPE] = sizeof(td_shape),
        [TD__FIELD_INITIALIZER] = sizeof(td_initializer),
    };
    size_t width = field->type == TD__FIELD_TRIPLE ? 3 : field->type == TD__FIELD_PAIR ? 2 : 1;
    return field->number ? width * sizeof(td_number) : sizes[field->type];
}

/* The longest run of bytes of a struct of options that no field of a kind with that struct describes. Runs
 * of up to 7 bytes align the next member. */
static size_t longest_gap(const char *options, size_t size) {
    static const char *const structs[] = {
#define OPTIONS(member, word, keras, options) #options,
        TD_LAYER_LIST(OPTIONS)
#undef OPTIONS
    };
    bool covered[4096] = {false};
    assert_true(size <= sizeof covered);
    memset(covered, true, sizeof(size_t)); /* `size` */
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        const td__layer_kind *kind = kind_at(i);
        for (size_t k = 0; !strcmp(structs[i], options) && k < kind->field_count; k++) {
            size_t end = kind->fields[k].offset + bytes_of(&kind->fields[k]);
            assert_true(end <= size);
            memset(covered + kind->fields[k].offset, true, end - kind->fields[k].offset);
        }
    }
    size_t longest = 0;
    size_t run = 0;
    for (size_t at = 0; at < size; at++) {
        run = covered[at] ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* A member without a row in a table of fields could not be set in an experiment file, nor be saved. */
static void every_option_has_a_field(void **state) {
    (void)state;
#define CHECK(member, word, keras, options)                                                        \
    if (TD_LAYER_##member != TD_LAYER_CUSTOM && !kind_at(TD_LAYER_##member)->wraps &&              \
        longest_gap(#options, sizeof(td_##word##_layer)) >= sizeof(int64_t)) {                     \
        fail_msg("td_%s_layer has a member that no field describes", #options);                    \
    }
    TD_LAYER_LIST(CHECK)
#undef CHECK
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_says_all),      cmocka_unit_test(members_fit_the_role),
        cmocka_unit_test(keras_options_are_ours),   cmocka_unit_test(torch_weights_are_whole),
        cmocka_unit_test(every_option_has_a_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
