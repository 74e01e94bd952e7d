/* tapedeck diff: the first step, operation and element at which two runs part. */
#include "json.h"
#include "operation.h"
#include "options.h"
#include "terminal.h"

#include <math.h>
#include <string.h>

static const char help[] =
    "tapedeck diff RUN_A RUN_B [--json]\n"
    "\n"
    "Finds the first step and tensor at which two runs part. The flight records say between which\n"
    "steps; both runs are executed again over these, side by side, and every tensor that their\n"
    "operations made is compared in the order of execution. Printed are the operation, an "
    "element,\n"
    "both values and how many floats lie between them (ulp), and what differs in environment and\n"
    "experiment. An operation that read the same in both runs, and made something else, is the "
    "cause.\n"
    "Layers may have been renamed, inserted or removed: the rest is compared.\n"
    "\n"
    "Runs that were recorded from Python are compared by what both recorded, hashes (form: hash)\n"
    "before all. Both runs are only read.\n"
    "\n"
    "  --json   the result as a JSON object\n"
    "\n"
    "Exit status 0 when nothing differs, 1 when something does, or could not be read.\n"
    "\n"
    "Examples\n"
    "  tapedeck diff runs/demo runs/demo-2\n"
    "  tapedeck diff runs/laptop /mnt/server/runs/laptop\n";

static void print_value(const char *run, const td_operation *o) {
    printf("  %s: %.9g", run, o->value);
    if (*o->place) {
        printf(" (%s)", o->place);
    }
    putchar('\n');
}

static void print_apart(const td_diff *found) {
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE], element[ELEMENT_TEXT];
    if (!td_shape_equal(&found->a->shape, &found->b->shape)) {
        printf("  shapes: %s and %s\n", td_shape_text(&found->a->shape, a),
               td_shape_text(&found->b->shape, b));
        return;
    }
    if (!found->elements) {
        return;
    }
    printf("  %s %s, element %s; %lld of %lld differ", found->a->tensor,
           td_shape_text(&found->a->shape, a),
           element_text(&found->a->shape, found->a->element, element), (long long)found->differing,
           (long long)found->elements);
    if (found->ulps != UINT64_MAX) {
        printf("; %llu ulp apart", (unsigned long long)found->ulps);
    }
    if (found->max_ulps != UINT64_MAX) {
        printf(", at most %llu", (unsigned long long)found->max_ulps);
    }
    putchar('\n');
}

static void print_layers(const td_diff *found, const char *const runs[2]) {
    for (size_t i = 0; i < found->layer_count; i++) {
        const td_layer_change *layer = &found->layers[i];
        if (layer->a && layer->b) {
            printf("  layer %s (%s) is %s in %s\n", layer->a, layer->type, layer->b, runs[1]);
        } else {
            printf("  layer %s (%s) is only in %s\n", layer->a ? layer->a : layer->b, layer->type,
                   runs[layer->a ? 0 : 1]);
        }
    }
}

static void print_settings(const td_diff *found, const char *const runs[2]) {
    const td_comparison *s = found->settings;
    for (size_t i = 0; i < s->difference_count; i++) {
        if (i == 0 || i == s->environment_count) {
            printf("\n%s\n", i < s->environment_count ? "environment" : "experiment");
        }
        printf("  %s: %s\n", runs[s->differences[i].run], s->differences[i].text);
    }
}

static void print_diff(const td_diff *found, const char *const runs[2]) {
    if (!found->step) {
        printf("the same up to step %lld\n", (long long)found->same_to);
    } else if (found->after == found->step - 1) {
        printf("step %lld: %s differs\n", (long long)found->step, found->signal);
    } else {
        printf("they part after step %lld, at the latest with step %lld: %s differs\n",
               (long long)found->after, (long long)found->step, found->signal);
    }
    if (found->a) {
        print_operation(found->a);
        print_apart(found);
        print_value(runs[0], found->a);
        print_value(runs[1], found->b);
    }
    if (*found->cause) {
        printf("  %s%s\n", found->is_cause ? "cause: " : "", found->cause);
    }
    print_layers(found, runs);
    if (*found->reason) {
        printf("  %s\n", found->reason);
    }
    print_settings(found, runs);
}

static void print_json_ulps(const char *key, uint64_t ulps) {
    if (ulps == UINT64_MAX) {
        printf(",\"%s\":null", key);
    } else {
        printf(",\"%s\":%llu", key, (unsigned long long)ulps);
    }
}

static void print_json_texts(const td_diff *found) {
    const struct {
        const char *key, *text;
    } texts[] = {{"signal", found->signal}, {"cause", found->cause}, {"reason", found->reason}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        printf(",\"%s\":", texts[i].key);
        print_json_text(texts[i].text);
    }
}

static void print_json_name(const char *key, const char *name) {
    printf("\"%s\":", key);
    if (name) {
        print_json_text(name);
    } else {
        (void)fputs("null", stdout);
    }
}

static void print_json_diff(const td_diff *found) {
    printf("{\"same_to\":%lld,\"step\":%lld,\"after\":%lld", (long long)found->same_to,
           (long long)found->step, (long long)found->after);
    print_json_texts(found);
    (void)fputs(",\"a\":", stdout);
    print_json_operation(found->a);
    (void)fputs(",\"b\":", stdout);
    print_json_operation(found->b);
    printf(",\"is_cause\":%s,\"differing\":%lld,\"elements\":%lld",
           found->is_cause ? "true" : "false", (long long)found->differing,
           (long long)found->elements);
    print_json_ulps("ulps", found->ulps);
    print_json_ulps("max_ulps", found->max_ulps);
    (void)fputs(",\"layers\":[", stdout);
    for (size_t i = 0; i < found->layer_count; i++) {
        (void)fputs(i ? ",{" : "{", stdout);
        print_json_name("a", found->layers[i].a);
        putchar(',');
        print_json_name("b", found->layers[i].b);
        putchar(',');
        print_json_name("type", found->layers[i].type);
        putchar('}');
    }
    (void)fputs("],\"settings\":[", stdout);
    const td_comparison *s = found->settings;
    for (size_t i = 0; i < s->difference_count; i++) {
        printf("%s{\"run\":%d,\"of\":\"%s\",\"text\":", i ? "," : "", s->differences[i].run,
               i < s->environment_count ? "environment" : "experiment");
        print_json_text(s->differences[i].text);
        putchar('}');
    }
    (void)fputs("]}\n", stdout);
}

static int run_diff(int count, char **arguments) {
    bool json = false;
    const option options[] = {{.name = "json", .flag = &json}};
    if (!parse_options(&command_diff, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 2) {
        return misuse(&command_diff, "expected two runs");
    }
    td_error error = {0};
    td_diff *found = td_diff_find(arguments[0], arguments[1], &error);
    if (!found) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    if (json) {
        print_json_diff(found);
    } else {
        print_diff(found, (const char *const[]){arguments[0], arguments[1]});
    }
    int status = found->step || *found->reason ? EXIT_BAD : EXIT_GOOD;
    td_diff_destroy(found);
    return status;
}

const command command_diff = {
    .name = "diff",
    .summary = "find the first step, operation and element at which two runs part",
    .help = help,
    .run = run_diff,
};
