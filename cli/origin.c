/* tapedeck origin: the operation that made the first NaN or infinity; the rows behind a spike. */
#include "json.h"
#include "operation.h"
#include "options.h"
#include "terminal.h"

#include <math.h>
#include <string.h>

static const char help[] =
    "tapedeck origin RUN [--what nan|inf|spike [EXPR]] [--json]\n"
    "\n"
    "Finds where the first number that is not finite came from in a run of `tapedeck train`: the "
    "steps\n"
    "before it are executed again from the nearest checkpoint, and the first operation is named "
    "whose\n"
    "output is not finite while all that it read is: layer, operation, forward or backward, "
    "element,\n"
    "rows of the data, and what the operation read. The run is only read.\n"
    "\n"
    "  --what WHAT   nan: the first loss that is NaN; inf: that is infinite; without it: either.\n"
    "                spike: the first loss above 8 times the median of the 32 before it, and the "
    "rows\n"
    "                of its batch by their own loss\n"
    "  EXPR          with spike: the first step in which this holds, over loss, learning_rate,\n"
    "                gradient_norm and step: 'loss > 3 and step > 100'\n"
    "  --json        the result as a JSON object\n"
    "\n"
    "Exit status 0 when it was found; 1 when there is no such step, or the steps that were "
    "executed\n"
    "again are not what was recorded.\n"
    "\n"
    "Examples\n"
    "  tapedeck origin runs/demo\n"
    "  tapedeck origin runs/demo --what spike\n"
    "  tapedeck origin runs/demo --what spike 'loss > 3'\n";

static void print_rows(const td_origin *found) {
    bool spike = !strcmp(found->what, "spike");
    if (spike) {
        printf("  rows of the batch (%lld) by their own loss\n", (long long)found->bad_rows);
    } else if (found->bad_rows > 1) {
        printf("  in %lld rows of the batch\n", (long long)found->bad_rows);
    }
    for (size_t i = 0; i < found->row_count; i++) {
        if (spike) {
            printf("  %12.6g  %s\n", found->rows[i].loss, found->rows[i].place);
        } else {
            printf("    %s\n", found->rows[i].place);
        }
    }
    if (!spike && found->bad_rows > (int64_t)found->row_count) {
        printf("    and %lld more\n", (long long)(found->bad_rows - (int64_t)found->row_count));
    }
}

static void print_origin(const td_origin *found) {
    const td_operation *o = found->operation;
    char element[ELEMENT_TEXT], shape[TD_SHAPE_TEXT_SIZE];
    printf("%s\n", found->text);
    if (o) {
        print_operation(o);
        printf("  %s %s%s%s: %s; %lld NaN and %lld infinite\n", o->tensor,
               td_shape_text(&o->shape, shape), o->shape.rank ? ", element " : "",
               element_text(&o->shape, o->element, element),
               isnan(o->value) ? "NaN"
               : o->value > 0  ? "inf"
                               : "-inf",
               (long long)found->nan, (long long)found->inf);
        print_operands(o);
    }
    if (*found->steepest) {
        printf("  the gradient that grew most: %s, norm %.6g after %.6g\n", found->steepest,
               found->steepest_norm, found->steepest_before);
    }
    print_rows(found);
    if (found->differs_at) {
        printf("step %lld is not what was recorded: %s\n", (long long)found->differs_at,
               found->reason);
    }
}

static void print_json_origin(const td_origin *found) {
    (void)fputs("{\"what\":", stdout);
    print_json_text(found->what);
    printf(",\"step\":%lld,\"loss\":", (long long)found->step);
    print_json_number(found->loss);
    (void)fputs(",\"before\":", stdout);
    print_json_number(found->before);
    (void)fputs(",\"operation\":", stdout);
    print_json_operation(found->operation);
    printf(",\"nan\":%lld,\"inf\":%lld,\"bad_rows\":%lld,\"rows\":[", (long long)found->nan,
           (long long)found->inf, (long long)found->bad_rows);
    for (size_t i = 0; i < found->row_count; i++) {
        printf("%s{\"row\":%lld,\"loss\":", i ? "," : "", (long long)found->rows[i].row);
        print_json_number(found->rows[i].loss);
        (void)fputs(",\"place\":", stdout);
        print_json_text(found->rows[i].place);
        putchar('}');
    }
    (void)fputs("],\"steepest\":", stdout);
    print_json_text(found->steepest);
    (void)fputs(",\"text\":", stdout);
    print_json_text(found->text);
    printf(",\"checkpoint\":%lld,\"last\":%lld,\"differs_at\":%lld,\"reason\":",
           (long long)found->checkpoint, (long long)found->last, (long long)found->differs_at);
    print_json_text(found->reason);
    (void)fputs("}\n", stdout);
}

static int run_origin(int count, char **arguments) {
    bool json = false;
    td_origin_options how = {.size = sizeof how};
    const option options[] = {{.name = "what", .text = &how.what}, {.name = "json", .flag = &json}};
    if (!parse_options(&command_origin, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    bool spike = how.what && !strcmp(how.what, "spike");
    if (count < 1 || count > 1 + spike) {
        return misuse(&command_origin,
                      spike ? "expected one run, and at most one condition" : "expected one run");
    }
    if (how.what && !spike && strcmp(how.what, "nan") != 0 && strcmp(how.what, "inf") != 0) {
        return misuse(&command_origin, "--what: expected nan, inf or spike, and not '%s'",
                      how.what);
    }
    how.when = count > 1 ? arguments[1] : NULL;
    td_error error = {0};
    td_origin *found = td_origin_find(arguments[0], &how, &error);
    if (!found) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    if (json) {
        print_json_origin(found);
    } else {
        print_origin(found);
    }
    int status = found->step && !found->differs_at ? EXIT_GOOD : EXIT_BAD;
    td_origin_destroy(found);
    return status;
}

const command command_origin = {
    .name = "origin",
    .summary = "find the operation that made the first NaN, or the rows behind a spike",
    .help = help,
    .run = run_origin,
};
