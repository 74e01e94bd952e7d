/* What is not supported of a Keras file is refused, all at once, with what and where; nothing is ever
 * loaded with other numbers. */
#include "test.h"

#include "base/memory.h"
#include "keras_archive.h"

/* A configuration that is read to its end before the weights are looked at. */
static void assert_config_refused(const char *config, td_status status, const char *message) {
    assert_refused(make_archive(config, "none", 4), status, message);
}

#define SEQUENTIAL(layers)                                                                         \
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"s\", \"layers\": ["                 \
    "{\"class_name\": \"InputLayer\", \"config\": {\"name\": \"i\", \"batch_shape\": [null, 8]}}," \
    " " layers "]}}"
#define LAYER(class, name, options)                                                                \
    "{\"class_name\": \"" class "\", \"config\": {\"name\": \"" name "\"" options "}}"

static void all_unsupported_layers_are_listed_in_one_error(void **state) {
    (void)state;
    const char *config = SEQUENTIAL(
        LAYER("Lambda", "scale", "") "," LAYER("SpectralNormalization", "g1", "") "," LAYER(
            "SpectralNormalization", "g2", "") "," LAYER("LSTM", "l",
                                                         ", \"units\": 3, \"stateful\": "
                                                         "true") "," LAYER("Dense", "d",
                                                                           ", \"units\": 2"));
    assert_config_refused(config, TD_UNSUPPORTED,
                          "4 layers cannot be loaded: Lambda 'scale' (it is "
                          "code, which is never run); SpectralNormalization "
                          "'g1' and 1 more (there is no such layer here); "
                          "LSTM 'l' (stateful is true");
}

static void an_option_that_would_change_the_numbers_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *layer, *message;
    } table[] = {
        {LAYER("Conv2D", "x", ", \"filters\": 1, \"data_format\": \"channels_first\""),
         "data_format is \"channels_first\""},
        {LAYER("Dense", "x", ", \"activation\": \"glu\""), "activation is \"glu\""},
        {LAYER("Dense", "x", ", \"dtype\": \"mixed_float16\""), "it computes in mixed_float16"},
        {LAYER("Dense", "x",
               ", \"dtype\": {\"class_name\": \"DTypePolicy\", \"config\": {\"name\": "
               "\"bfloat16\"}}"),
         "it computes in bfloat16"},
        {LAYER("Dense", "x", ", \"kernel_constraint\": {\"class_name\": \"MaxNorm\"}"),
         "kernel_constraint is MaxNorm"},
        {LAYER("Dense", "x", ", \"activity_regularizer\": {\"class_name\": \"L2\"}"),
         "activity_regularizer is L2"},
        {LAYER("Dense", "x", ", \"kernel_regularizer\": {\"class_name\": \"Orthogonal\"}"),
         "kernel_regularizer is Orthogonal"},
        {LAYER("Dense", "x", ", \"of_a_later_keras\": 7"), "of_a_later_keras is 7"},
        {LAYER("Dense", "x", ", \"of_a_later_keras\": NaN"), "of_a_later_keras is \"NaN\""},
        {LAYER("LSTM", "x", ", \"units\": 2, \"stateful\": true"), "stateful is true"},
        {LAYER("GRU", "x", ", \"units\": 2, \"return_state\": true"), "return_state is true"},
        {LAYER("LSTM", "x", ", \"units\": 2, \"zero_output_for_mask\": true"),
         "zero_output_for_mask is true"},
        {LAYER("Dropout", "x", ", \"rate\": 0.5, \"noise_shape\": [1, 4]"), "noise_shape is [1,4]"},
        {LAYER("BatchNormalization", "x", ", \"axis\": 0"), "axis is 0"},
        {LAYER("BatchNormalization", "x", ", \"axis\": 2"), "axis is 2"},
        {LAYER("BatchNormalization", "x", ", \"renorm\": true"), "renorm is true"},
        {LAYER("LayerNormalization", "x", ", \"axis\": [1, 2]"), "axis is [1,2]"},
        {LAYER("ReLU", "x", ", \"max_value\": \"3.0\""), "max_value is \"3.0\""},
        {LAYER("ReLU", "x", ", \"threshold\": [1.0]"), "threshold is [1.0]"},
        {LAYER("Softmax", "x", ", \"axis\": 0"), "axis is 0"},
        {LAYER("UpSampling2D", "x", ", \"interpolation\": \"bicubic\""),
         "interpolation is \"bicubic\""},
        {LAYER("MultiHeadAttention", "x", ", \"attention_axes\": [1, 2]"),
         "attention_axes is [1,2]"},
        {LAYER("Bidirectional", "x", ""), "it wraps no layer, which is not here"},
        {LAYER("Bidirectional", "x",
               ", \"merge_mode\": null, \"layer\": {\"class_name\": \"LSTM\", "
               "\"config\": {\"units\": 2}}"),
         "its merge_mode is null: it puts out two tensors"},
        {LAYER("Bidirectional", "x",
               ", \"layer\": {\"class_name\": \"Bidirectional\", \"config\": "
               "{}}"),
         "it wraps a Bidirectional"},
        {LAYER("TimeDistributed", "x",
               ", \"layer\": {\"class_name\": \"LSTM\", \"config\": "
               "{\"units\": 2, \"stateful\": true}}"),
         "of its LSTM, stateful is true"},
        {"{\"module\": \"mine\", \"class_name\": \"Dense\", \"config\": {\"name\": \"x\"}}",
         "a class of its own"},
        {"{\"module\": \"keras.src.ops.nn\", \"class_name\": \"Dense\", \"config\": {\"name\": "
         "\"x\"}}",
         "there is no such layer here"},
        {LAYER("Dense", "x",
               ", \"activation\": {\"module\": \"mine\", \"class_name\": \"function\", "
               "\"config\": \"relu\"}"),
         "activation is function"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char config[2048];
        snprintf(config, sizeof config, SEQUENTIAL("%s"), table[i].layer);
        assert_config_refused(config, TD_UNSUPPORTED, table[i].message);
    }
}

#define FUNCTIONAL(layers, inputs, outputs)                                                        \
    "{\"class_name\": \"Functional\", \"config\": {\"name\": \"f\", \"layers\": ["                 \
    "{\"class_name\": \"InputLayer\", \"name\": \"i\", \"inbound_nodes\": [], \"config\": "        \
    "{\"name\": \"i\", \"batch_shape\": [null, 8]}}, " layers "], \"input_layers\": [" inputs      \
    "], \"output_layers\": [" outputs "]}}"
#define NODE(class, name, nodes)                                                                   \
    "{\"class_name\": \"" class "\", \"name\": \"" name                                            \
                                "\", \"config\": {\"units\": 2}, \"inbound_nodes\": [" nodes "]}"
#define IN "[\"i\", 0, 0]"

/* Masks: operations of Keras beside the layers. */
#define OPERATION(class, name, nodes)                                                              \
    "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"" class "\", \"name\": \"" name       \
                                                                     "\", \"config\": {\"axis\": " \
                                                                     "-1}, \"inbound_nodes\": "    \
                                                                     "[{\"args\": [" nodes         \
                                                                     "], \"kwargs\": {}}]}"
#define MASKED(name, mask)                                                                         \
    NODE("LSTM", name, "{\"args\": [[\"i\", 0, 0]], \"kwargs\": {\"mask\": " mask "}}")

static void masks_that_no_layer_makes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *config, *message;
    } table[] = {
        {FUNCTIONAL(OPERATION("NotEqual", "n", IN ", 1") "," MASKED("a", "[\"n\", 0, 0]"), IN,
                    "[\"a\", 0, 0]"),
         "LSTM 'a' (it is called with a mask that is not its input's own)"},
        {FUNCTIONAL(OPERATION("Any", "p", "[\"q\", 0, 0]") "," OPERATION(
                        "Any", "q", "[\"p\", 0, 0]") "," MASKED("a", "[\"p\", 0, 0]"),
                    IN, "[\"a\", 0, 0]"),
         "LSTM 'a' (it is called with a mask that is not its input's own)"},
        {FUNCTIONAL(OPERATION("NotEqual", "n", IN ", 1") "," MASKED("a", "[null, [\"n\", 0, 0]]"),
                    IN, "[\"a\", 0, 0]"),
         "LSTM 'a' (it is called with a mask that is not its input's own)"},
        {FUNCTIONAL(OPERATION("NotEqual", "n", IN ", 1"), IN, "[\"n\", 0, 0]"),
         "NotEqual 'n' (there is no such layer here)"},
        {FUNCTIONAL(OPERATION("OnesLike", "n", IN) "," NODE("Dense", "a", "[[\"n\", 0, 0, {}]]"),
                    IN, "[\"a\", 0, 0]"),
         "OnesLike 'n' (there is no such layer here)"},
        {FUNCTIONAL(MASKED("a", "3"), IN, "[\"a\", 0, 0]"), "it is called with mask"},
        {SEQUENTIAL("{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"NotEqual\", "
                    "\"config\": {\"name\": \"n\"}}"),
         "NotEqual 'n' (there is no such layer here)"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_config_refused(table[i].config, TD_UNSUPPORTED, table[i].message);
    }
}

static void graphs_that_cannot_be_had_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *config;
        td_status status;
        const char *message;
    } table[] = {
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {}]], [[\"i\", 0, 0, {}]]"), IN,
                    "[\"a\", 2, 0]"),
         TD_FORMAT, "no usable input_layers or output_layers"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {}]], [[\"a\", 9, 0, {}]]"), IN,
                    "[\"a\", 1, 0]"),
         TD_FORMAT, "there is no layer 'a'"},
        {FUNCTIONAL(NODE("Add", "a",
                         "{\"args\": [[\"i\", 0, 0], 3], \"kwargs\": {}}, "
                         "{\"args\": [[\"i\", 0, 0], 4], \"kwargs\": {}}"),
                    IN, "[\"a\", 1, 0]"),
         TD_UNSUPPORTED, "its calls differ in more than what they read"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {\"training\": true}]]"), IN,
                    "[\"a\", 0, 0]"),
         TD_UNSUPPORTED, "it is called with training"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 1, {}]]"), IN, "[\"a\", 0, 0]"), TD_UNSUPPORTED,
         "layer 'a' reads output 2 of 'i', which has none here"},
        {FUNCTIONAL(NODE("Dense", "a", "{\"args\": [3], \"kwargs\": {}}"), IN, "[\"a\", 0, 0]"),
         TD_UNSUPPORTED, "something that is no layer's output"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {}]]"), IN ", [\"a\", 0, 0]",
                    "[\"a\", 0, 0]"),
         TD_FORMAT, "no usable input_layers or output_layers"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"b\", 0, 0, {}]]") "," NODE("Dense", "b",
                                                                       "[[\"a\", 0, 0, {}]]"),
                    IN, "[\"b\", 0, 0]"),
         TD_FORMAT, "in a circle before 'a'"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"none\", 0, 0, {}]]"), IN, "[\"a\", 0, 0]"), TD_FORMAT,
         "there is no layer 'none'"},
        {FUNCTIONAL(NODE("Dense", "a", ""), IN, "[\"a\", 0, 0]"), TD_FORMAT,
         "nothing is connected to 'a'"},
        {FUNCTIONAL(NODE("Dense", "i", "[[\"i\", 0, 0, {}]]"), IN, "[\"i\", 0, 0]"), TD_FORMAT,
         "two layers are called 'i'"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {}]]"), IN, ""), TD_FORMAT,
         "no usable input_layers or output_layers"},
        {"{\"class_name\": \"MyModel\", \"config\": {}}", TD_UNSUPPORTED,
         "a model of class MyModel, whose code is not in the file"},
        {"{\"class_name\": \"Sequential\", \"config\": {\"layers\": []}}", TD_UNSUPPORTED,
         "saved before it was built"},
        {"{\"class_name\": \"Sequential\", \"config\": {\"layers\": [{}]}}", TD_FORMAT,
         "a layer without class_name or name"},
        {"[]", TD_FORMAT, "it has no class_name and config"},
        {"{", TD_FORMAT, "not sound JSON"},
        {"{\"a\": 1, \"a\": 2}", TD_FORMAT, "not sound JSON"},
        {FUNCTIONAL(NODE("Dense", "a", "[[\"i\", 0, 0, {}]]"), IN, IN), TD_UNSUPPORTED,
         "an output of the model is its input"},
        {SEQUENTIAL(LAYER("Dense", "a", "")), TD_INVALID, "'units' must be given"},
        {SEQUENTIAL(LAYER("Flatten", "input", "")), TD_INVALID, "cannot be called 'input'"},
        {SEQUENTIAL(LAYER("Dense", "a", ", \"units\": 2000000000")), TD_RANGE,
         "layer 'a' needs more parameters than a file of"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_config_refused(table[i].config, table[i].status, table[i].message);
    }
}

static void models_nested_deeper_than_any_real_one_are_refused(void **state) {
    (void)state;
    enum { DEPTH = 40 };
    static char config[16384];
    size_t used = 0;
    for (int i = 0; i < DEPTH; i++) {
        used += (size_t)snprintf(config + used, sizeof config - used,
                                 "{\"class_name\": \"Sequential\", \"name\": \"n%d\", \"config\": "
                                 "{\"layers\": [",
                                 i);
    }
    for (int i = 0; i < DEPTH; i++) {
        used += (size_t)snprintf(config + used, sizeof config - used, "]}}");
    }
    assert_config_refused(config, TD_FORMAT, "nested too deeply");
}

static void a_name_longer_than_any_layer_may_have_is_refused(void **state) {
    (void)state;
    char config[1024], name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    snprintf(config, sizeof config, SEQUENTIAL(LAYER("Flatten", "%s", "")), name);
    assert_config_refused(config, TD_FORMAT, "a name that is too long: 'xxx");
}

static void weights_must_fit_the_configuration(void **state) {
    (void)state;
    assert_refused(edit_fixture("picture.keras", "\"Dense\"", "\"units\": 2", "\"units\": 3"),
                   TD_BAD_SHAPE,
                   "dense.kernel has shape (8, 2) in 'layers/dense/vars/0', the layer "
                   "needs (8, 3)");
    assert_refused(
        edit_fixture("picture.keras", "\"Dense\"", "\"use_bias\": true", "\"use_bias\": false"),
        TD_FORMAT, "the layer has 1 parameters in 'layers/dense/vars', the file '1' too");
    assert_refused(
        edit_fixture("images.keras", "\"groups\": 2", "\"use_bias\": false", "\"use_bias\": true"),
        TD_NOT_FOUND, "conv2d.bias is missing: there is no 'layers/conv2d_1/vars/1'");
    assert_refused(edit_fixture("images.keras", "\"images\"",
                                "\"class_name\": \"BatchNormalization\"",
                                "\"class_name\": \"LayerNormalization\", \"was\": \"\""),
                   TD_UNSUPPORTED, "momentum is 0.99");
    assert_refused(edit_fixture("text.keras", "\"Embedding\"", "\"Dense\"", "\"Activation\""),
                   TD_UNSUPPORTED, "Activation 'dense' (");
}

static void weights_alone_say_what_to_do(void **state) {
    (void)state;
    archive whole = read_fixture("picture.keras");
    td_error error = {0};
    td__zip zip;
    td__zip_member weights = {0};
    assert_ok(td__zip_open(&zip, whole.bytes, whole.size, "x", &error), error);
    assert_ok(td__zip_read(&zip, "model.weights.h5", 0, true, &weights, &error), error);
    archive alone = {malloc(weights.size), weights.size};
    memcpy(alone.bytes, weights.data, weights.size);
    td__zip_release(&zip);
    free(whole.bytes);
    assert_refused(alone, TD_NO_MODEL, "weights alone; `tapedeck inspect` lists them");
}

static void numbers_of_python_are_read(void **state) {
    (void)state;
    td_error error = {0};
    archive made = edit_fixture("picture.keras", "\"Dense\"", "\"kernel_initializer\": {",
                                "\"seed\": [NaN,-Infinity,Infinity,\"NaN\\\"\"], "
                                "\"kernel_initializer\": {");
    td_model *model = td__keras_parse("x.keras", made.bytes, made.size, &error);
    if (!model) {
        fail_msg("%s", error.text);
    }
    td_model_destroy(model);
    free(made.bytes);
}

static void out_of_memory_anywhere_is_an_error(void **state) {
    (void)state;
    static const char *const names[] = {"graph.keras", "graph.h5"};
    for (size_t k = 0; k < 2; k++) {
        archive whole = read_fixture(names[k]);
        td_model *model = NULL;
        size_t failures = 0;
        for (uint64_t n = 1; !model && n < 5000; n++, failures++) {
            td_error error = {0};
            td__allocation_fail_at(n);
            model = td__keras_parse("x.keras", whole.bytes, whole.size, &error);
            td__allocation_fail_at(0);
            if (!model && !error.text[0]) {
                fail_msg("allocation %d failed without an error", (int)n);
            }
        }
        assert_non_null(model);
        assert_true(failures > 50);
        td_model_destroy(model);
        free(whole.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_unsupported_layers_are_listed_in_one_error),
        cmocka_unit_test(an_option_that_would_change_the_numbers_is_refused),
        cmocka_unit_test(masks_that_no_layer_makes_are_refused),
        cmocka_unit_test(graphs_that_cannot_be_had_are_refused),
        cmocka_unit_test(models_nested_deeper_than_any_real_one_are_refused),
        cmocka_unit_test(a_name_longer_than_any_layer_may_have_is_refused),
        cmocka_unit_test(weights_must_fit_the_configuration),
        cmocka_unit_test(weights_alone_say_what_to_do),
        cmocka_unit_test(numbers_of_python_are_read),
        cmocka_unit_test(out_of_memory_anywhere_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
