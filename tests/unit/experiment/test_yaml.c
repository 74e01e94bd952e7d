/* The YAML reader: positions, what is refused, editing, writing back. */
#include "test.h"

#include "base/memory.h"
#include "experiment/yaml.h"

static td__yaml *parse(const char *text) {
    td_error error = {0};
    td__yaml *yaml = td__yaml_parse("x.yaml", text, strlen(text), &error);
    if (!yaml) {
        fail_msg("%s", error.text);
    }
    return yaml;
}

static void assert_refused(const char *text, const char *message) {
    td_error error = {0};
    td__yaml *yaml = td__yaml_parse("x.yaml", text, strlen(text), &error);
    assert_null(yaml);
    if (!strstr(error.text, message)) {
        fail_msg("'%s' does not have '%s'", error.text, message);
    }
}

static void nodes_know_their_line_and_column(void **state) {
    (void)state;
    td__yaml *yaml = parse("name: a\n\ntrain:\n  epochs: 3\n  list: [1, \"2\"]\n");
    const td__yaml_node *train = td__yaml_get(td__yaml_root(yaml), "train");
    const td__yaml_node *epochs = td__yaml_get(train, "epochs");
    assert_int_equal(epochs->line, 4);
    assert_int_equal(epochs->column, 11);
    assert_string_equal(epochs->text, "3");
    const td__yaml_node *list = td__yaml_get(train, "list");
    assert_int_equal(list->kind, TD__YAML_LIST);
    assert_int_equal(list->count, 2);
    assert_false(list->items[0]->quoted);
    assert_true(list->items[1]->quoted);
    td__yaml_destroy(yaml);
}

static void an_empty_document_is_an_empty_map(void **state) {
    (void)state;
    td__yaml *yaml = parse("# nothing\n");
    assert_int_equal(td__yaml_root(yaml)->kind, TD__YAML_MAP);
    assert_int_equal(td__yaml_root(yaml)->count, 0);
    td__yaml_destroy(yaml);
}

static void what_is_not_plain_data_is_refused_with_its_line(void **state) {
    (void)state;
    assert_refused("a: 1\nb: &x 2\n", "x.yaml:2: anchors");
    assert_refused("a: 1\nwhat: *.error\n", "x.yaml:2:");
    assert_refused("a: !!int 1\n", "x.yaml:1: tags");
    assert_refused("a: 1\n---\nb: 2\n", "second document");
    assert_refused("a: 1\nb: 2\na: 3\n", "x.yaml:3: key a is there twice (first in line 1)");
    assert_refused("? [1, 2]\n: 3\n", "a key must be a word");
    assert_refused("a: [1, 2\nb: 3\n", "x.yaml:2:");
    assert_refused("a: \"\\0\"\n", "NUL");
    assert_refused("a: \xff\n", "x.yaml:1:");
}

static void depth_and_number_of_keys_are_capped(void **state) {
    (void)state;
    char deep[200];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 99);
    deep[199] = 0;
    assert_refused(deep, "nested too deeply");
    char *wide = calloc(1, 20000);
    size_t length = 0;
    for (int i = 0; i <= TD__YAML_MAX_KEYS; i++) {
        length += (size_t)snprintf(wide + length, 20000 - length, "k%d: 1\n", i);
    }
    assert_refused(wide, "more than 1000 keys");
    free(wide);
}

static void set_replaces_adds_and_indexes(void **state) {
    (void)state;
    td_error error = {0};
    td__yaml *yaml = parse("train: {epochs: 3}\nmodel:\n  - dense: {units: 4}\n");
    td__yaml_node *root = td__yaml_root(yaml);
    assert_ok(td__yaml_set(yaml, "train.epochs=5", &error), error);
    assert_string_equal(td__yaml_get(td__yaml_get(root, "train"), "epochs")->text, "5");
    assert_ok(td__yaml_set(yaml, "model.0.dense.units=8", &error), error);
    const td__yaml_node *dense = td__yaml_get(td__yaml_get(root, "model")->items[0], "dense");
    assert_string_equal(td__yaml_get(dense, "units")->text, "8");
    assert_ok(td__yaml_set(yaml, "data.input=[8, 8, 1]", &error), error);
    const td__yaml_node *input = td__yaml_get(td__yaml_get(root, "data"), "input");
    assert_int_equal(input->count, 3);
    assert_int_equal(input->line, 0);
    assert_string_equal(input->file, "--set data.input=[8, 8, 1]");
    assert_ok(td__yaml_set(yaml, "model.1={flatten: }", &error), error);
    assert_int_equal(td__yaml_get(root, "model")->count, 2);
    td__yaml_destroy(yaml);
}

static void set_to_null_removes_sections_and_their_keys(void **state) {
    (void)state;
    td_error error = {0};
    td__yaml *yaml =
        parse("train: {epochs: 3, optimizer: {adam: {beta_1: 0.5}}, steps: 7}\nrecord: [a]\n");
    td__yaml_node *root = td__yaml_root(yaml);
    assert_ok(td__yaml_set(yaml, "train.epochs=null", &error), error);
    assert_null(td__yaml_get(td__yaml_get(root, "train"), "epochs"));
    assert_string_equal(td__yaml_get(td__yaml_get(root, "train"), "steps")->text, "7");
    assert_ok(td__yaml_set(yaml, "train.nothing=", &error), error);
    assert_int_equal(td__yaml_get(root, "train")->count, 2);
    assert_ok(td__yaml_set(yaml, "train.optimizer.adam=null", &error), error);
    assert_true(td__yaml_is_null(
        td__yaml_get(td__yaml_get(td__yaml_get(root, "train"), "optimizer"), "adam")));
    assert_ok(td__yaml_set(yaml, "record=~", &error), error);
    assert_null(td__yaml_get(root, "record"));
    td__yaml_destroy(yaml);
}

static void set_refuses_what_leads_nowhere(void **state) {
    (void)state;
    td_error error = {0};
    td__yaml *yaml = parse("train: {epochs: 3}\nmodel: [a]\n");
    assert_int_equal(td__yaml_set(yaml, "model.7=x", &error), TD_INVALID);
    assert_non_null(strstr(error.text, "'7'"));
    assert_int_equal(td__yaml_set(yaml, "train.epochs.x=1", &error), TD_INVALID);
    assert_int_equal(td__yaml_set(yaml, "epochs", &error), TD_INVALID);
    assert_int_equal(td__yaml_set(yaml, "train.epochs=[", &error), TD_FORMAT);
    td__yaml_destroy(yaml);
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    td__yaml *yaml = parse("name: \"7\"\ndata: {input: [8, 8, 1], label: 'a: b'}\nmodel:\n"
                           "  - flatten:\n  - dense: {units: 4}\nempty: []\nwhat: \"*.error\"\n");
    size_t size, again_size;
    char *text = td__yaml_write(yaml, &size);
    assert_non_null(text);
    td__yaml *again = parse(text);
    char *second = td__yaml_write(again, &again_size);
    assert_string_equal(text, second);
    const td__yaml_node *root = td__yaml_root(again);
    assert_string_equal(td__yaml_get(root, "name")->text, "7");
    assert_true(td__yaml_get(root, "name")->quoted);
    assert_string_equal(td__yaml_get(td__yaml_get(root, "data"), "label")->text, "a: b");
    assert_true(td__yaml_is_null(td__yaml_get(td__yaml_get(root, "model")->items[0], "flatten")));
    td__free(text);
    td__free(second);
    td__yaml_destroy(again);
    td__yaml_destroy(yaml);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    const char *text = "name: a\nmodel:\n  - dense: {units: 4}\n";
    for (uint64_t n = 1; n < 100; n++) {
        td_error error = {0};
        td__allocation_fail_at(n);
        td__yaml *yaml = td__yaml_parse("x.yaml", text, strlen(text), &error);
        td__allocation_fail_at(0);
        if (yaml) {
            td__yaml_destroy(yaml);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(error.status, TD_MEMORY);
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_line_and_column),
        cmocka_unit_test(an_empty_document_is_an_empty_map),
        cmocka_unit_test(what_is_not_plain_data_is_refused_with_its_line),
        cmocka_unit_test(depth_and_number_of_keys_are_capped),
        cmocka_unit_test(set_replaces_adds_and_indexes),
        cmocka_unit_test(set_to_null_removes_sections_and_their_keys),
        cmocka_unit_test(set_refuses_what_leads_nowhere),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
