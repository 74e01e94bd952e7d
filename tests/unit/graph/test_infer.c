/* What is inferred of a graph is what running it gives: of every model among the fixtures, with its sizes
 * as they are, and with axes of its input left open. */
#include "test.h"

#include "base/memory.h"
#include "graph/source.h"
#include "onnx/onnx.h"

#include <dirent.h>

#define FOLDER TD_TEST_FOLDER "/fixtures/models/onnx/"
enum { MAX_BYTES = 1 << 20, LIMIT = 64 << 20 };

typedef struct facts {
    td__graph_source source;
    td_error error;
} facts;

static bool open_source(const char *name, void *bytes, facts *f) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, MAX_BYTES, file);
    (void)fclose(file);
    td__graph_source *source = &f->source;
    *f = (facts){0};
    source->graph = td__onnx_parse(bytes, size, NULL, &f->error);
    if (!source->graph || source->graph->input_count != 1) {
        return false;
    }
    source->run = td__graph_run_create(source->graph, &f->error);
    source->facts = td__calloc(source->graph->value_count + 1, sizeof *source->facts);
    source->skip = td__calloc(source->graph->node_count + 1, sizeof *source->skip);
    const td_shape *shape = &source->graph->values[source->graph->inputs[0]].shape;
    source->input.rank = shape->rank - 1;
    for (int32_t i = 0; i < source->input.rank; i++) {
        source->input.dims[i] = shape->dims[i + 1] < 0 ? 1600 : shape->dims[i + 1];
    }
    source->example = source->input;
    if (source->run) {
        td__graph_run_set_model(source->run);
    }
    return source->run && !td__graph_fold(source, LIMIT, &f->error);
}

static void close_source(facts *f) {
    td__graph_run_destroy(f->source.run);
    td__graph_destroy(f->source.graph);
    td__free(f->source.facts);
    td__free(f->source.skip);
}

static void compare(const char *name, const td__graph_source *source,
                    const td__graph_fact *inferred, bool closed) {
    for (size_t v = 0; v < source->graph->value_count; v++) {
        const td__graph_fact *own = &inferred[v], *run = &source->facts[v];
        bool told = own->type != TD__GRAPH_UNDEFINED && run->type != TD__GRAPH_UNDEFINED;
        if (run->constant || !run->needed || !told || (int32_t)v == source->graph->inputs[0]) {
            continue;
        }
        bool same = own->type == run->type && own->last == run->last &&
                    own->shape.rank == run->shape.rank &&
                    (own->batch == run->batch || (!closed && run->batch));
        for (int32_t i = own->batch; same && i < own->shape.rank; i++) {
            same = own->shape.dims[i] < 0 || run->shape.dims[i] < 0 ||
                   own->shape.dims[i] == run->shape.dims[i];
        }
        if (!same) {
            char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
            fail_msg("%s: '%s' is %s%s%s of type %d, inferred as %s%s%s of %d", name,
                     source->graph->values[v].name, td_shape_text(&run->shape, b),
                     run->last ? " last" : "", run->batch ? " batch" : "", (int)run->type,
                     td_shape_text(&own->shape, a), own->last ? " last" : "",
                     own->batch ? " batch" : "", (int)own->type);
        }
    }
}

/* Infers with the axes open that are marked (bit 0: the batch, always), then runs. */
static bool check(const char *name, void *bytes, unsigned open) {
    facts f;
    bool good = open_source(name, bytes, &f), complete = false;
    if (good) {
        td__graph_source *source = &f.source;
        td_shape *shape = &source->graph->values[source->graph->inputs[0]].shape, given = *shape;
        for (int32_t i = 1; i < shape->rank; i++) {
            shape->dims[i] = open >> i & 1 ? -1 : source->input.dims[i - 1];
        }
        assert_int_equal(td__graph_infer(source, false, &complete, &f.error), TD_OK);
        size_t bytes_of = source->graph->value_count * sizeof *source->facts;
        td__graph_fact *inferred = malloc(bytes_of + 1);
        memcpy(inferred, source->facts, bytes_of);
        int64_t fixed = source->fixed_batch;
        source->fixed_batch = 0;
        *shape = given;
        if (complete && !td__graph_probe(source, LIMIT, &f.error) && fixed == source->fixed_batch) {
            compare(name, source, inferred, open == 0);
        } else if (complete && open == 0) {
            fail_msg("%s: a batch of %d was inferred, it is %d: %s", name, (int)fixed,
                     (int)source->fixed_batch, f.error.text);
        }
        free(inferred);
    }
    close_source(&f);
    return good && complete;
}

static void what_is_inferred_is_what_running_gives(void **state) {
    (void)state;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    void *bytes = malloc(MAX_BYTES);
    int closed = 0, opened = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name, *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".onnx") != 0 || strncmp(name, "large", 5) == 0 ||
            strncmp(name, "refused", 7) == 0) {
            continue;
        }
        closed += check(name, bytes, 0);
        for (unsigned open = 2; open < 16; open += 2) {
            opened += check(name, bytes, open);
        }
    }
    free(bytes);
    (void)closedir(folder);
    assert_true(closed >= 25);
    assert_true(opened >= 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_inferred_is_what_running_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
