/* tapedeck layers, losses, metrics, optimizers, schedules, initializers, activations: what there is. */
#include "command.h"
#include "json.h"
#include "options.h"

#include "tapedeck/nn.h"

#include <string.h>

#define HELP(what, one, example)                                                                   \
    "tapedeck " what " [NAME] [--json | --markdown]\n"                                             \
    "\n"                                                                                           \
    "Lists the " what " there are, or the one called NAME, with their options and defaults, and "  \
    "what\n"                                                                                       \
    "Keras and PyTorch call them. In an experiment file a " one " is NAME, or {NAME: {OPTION: "    \
    "VALUE}}.\n"                                                                                   \
    "\n"                                                                                           \
    "  --json       as one JSON array\n"                                                           \
    "  --markdown   as tables for a document\n"                                                    \
    "\n"                                                                                           \
    "Examples\n"                                                                                   \
    "  tapedeck " what "\n"                                                                        \
    "  tapedeck " what " " example " --json\n"                                                     \
    "\n"                                                                                           \
    "More: docs/experiment.md\n"

static void print_words(const td_catalog_option *item, const char *between) {
    const char *before = "";
    for (size_t i = 0; i < item->word_count; i++) {
        if (item->words[i]) {
            (void)printf("%s%s", before, item->words[i]);
            before = between;
        }
    }
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_text(td_catalog catalog, size_t index, const td_catalog_entry *entry) {
    (void)printf("%s", entry->name);
    if (entry->keras || entry->torch) {
        (void)printf("  (%s%s%s%s%s)", entry->keras ? "Keras " : "",
                     entry->keras ? entry->keras : "", entry->keras && entry->torch ? ", " : "",
                     entry->torch ? "PyTorch " : "", entry->torch ? entry->torch : "");
    }
    (void)puts("");
    td_catalog_option item;
    for (size_t k = 0; td_catalog_option_at(catalog, index, k, &item); k++) {
        (void)printf("  %-28s %-26s %s%s%s\n", item.key, item.type,
                     item.required ? "required" : item.standard, item.other ? "  also " : "",
                     item.other ? item.other : "");
    }
}

/* ---- For programs ---------------------------------------------------------------------------- */

static void print_member(const char *key, const char *text) {
    (void)printf("\"%s\": ", key);
    if (text) {
        print_json_text(text);
    } else {
        (void)printf("null");
    }
}

static void print_option_json(const td_catalog_option *item) {
    (void)printf("{");
    print_member("name", item->key);
    (void)printf(", ");
    print_member("also", item->other);
    (void)printf(", ");
    print_member("type", item->type);
    (void)printf(", ");
    print_member("default", item->required || !strcmp(item->standard, "-") ? NULL : item->standard);
    (void)printf(", \"required\": %s", item->required ? "true" : "false");
    if (item->words) {
        (void)printf(", \"words\": [\"");
        print_words(item, "\", \"");
        (void)printf("\"]");
    }
    (void)printf("}");
}

static void print_json(td_catalog catalog, size_t index, const td_catalog_entry *entry,
                       bool first) {
    (void)printf("%s\n {", first ? "" : ",");
    print_member("name", entry->name);
    (void)printf(", ");
    print_member("keras", entry->keras);
    (void)printf(", ");
    print_member("pytorch", entry->torch);
    (void)printf(", \"options\": [");
    td_catalog_option item;
    for (size_t k = 0; td_catalog_option_at(catalog, index, k, &item); k++) {
        (void)printf("%s", k ? ", " : "");
        print_option_json(&item);
    }
    (void)printf("]}");
}

/* ---- For documents --------------------------------------------------------------------------- */

static void print_markdown(td_catalog catalog, size_t index, const td_catalog_entry *entry) {
    (void)printf("\n## `%s`\n\nKeras: %s. PyTorch: %s.\n", entry->name,
                 entry->keras ? entry->keras : "nothing like it",
                 entry->torch ? entry->torch : "nothing like it");
    if (entry->option_count) {
        (void)printf("\n| option | also | value | default |\n|---|---|---|---|\n");
    }
    td_catalog_option item;
    for (size_t k = 0; td_catalog_option_at(catalog, index, k, &item); k++) {
        (void)printf("| `%s` | %s%s%s | ", item.key, item.other ? "`" : "",
                     item.other ? item.other : "", item.other ? "`" : "");
        if (item.words) {
            print_words(&item, ", ");
        } else {
            (void)printf("%s", item.type);
        }
        (void)printf(" | %s |\n", item.required                                ? "required"
                                  : *item.standard == '-' && !item.standard[1] ? ""
                                                                               : item.standard);
    }
}

/* ---- The commands ---------------------------------------------------------------------------- */

static int list_catalog(const command *cmd, td_catalog catalog, int count, char **arguments) {
    bool json = false, markdown = false;
    const option options[] = {{.name = "json", .flag = &json},
                              {.name = "markdown", .flag = &markdown}};
    if (!parse_options(cmd, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count > 1 || (json && markdown)) {
        return misuse(cmd, "expected at most one NAME, and one of --json and --markdown");
    }
    const char *names[256] = {NULL};
    size_t size = td_catalog_size(catalog), found = 0;
    td_catalog_entry entry;
    if (markdown && count == 0) {
        (void)printf(
            "# All %s\n\nWhat `tapedeck %s --markdown` prints: options, their defaults, and "
            "what others call it.\n",
            td_catalog_name(catalog), td_catalog_name(catalog));
    }
    (void)printf("%s", json ? "[" : "");
    for (size_t i = 0; i < size && td_catalog_entry_at(catalog, i, &entry); i++) {
        names[i < 256 ? i : 255] = entry.name;
        if (count == 1 && strcmp(arguments[0], entry.name) != 0) {
            continue;
        }
        if (json) {
            print_json(catalog, i, &entry, found == 0);
        } else if (markdown) {
            print_markdown(catalog, i, &entry);
        } else {
            print_text(catalog, i, &entry);
        }
        found++;
    }
    (void)printf("%s", json ? "\n]\n" : "");
    if (count == 1 && !found) {
        const char *nearest = td_nearest_word(arguments[0], names, size < 256 ? size : 255);
        return fail(EXIT_BAD, "%s: there is no '%s'%s%s%s", cmd->name, arguments[0],
                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    }
    return EXIT_GOOD;
}

#define CATALOG(what, member, one, example)                                                        \
    static int run_##what(int count, char **arguments) {                                           \
        return list_catalog(&command_##what, TD_CATALOG_##member, count, arguments);               \
    }                                                                                              \
    const command command_##what = {.name = #what,                                                 \
                                    .summary = "list the " #what " there are, with their options", \
                                    .help = HELP(#what, one, example),                             \
                                    .run = run_##what}
CATALOG(layers, LAYERS, "layer", "conv2d");
CATALOG(losses, LOSSES, "loss", "huber");
CATALOG(metrics, METRICS, "metric", "auc");
CATALOG(optimizers, OPTIMIZERS, "optimizer", "adam");
CATALOG(schedules, SCHEDULES, "schedule", "cosine");
CATALOG(initializers, INITIALIZERS, "initializer", "random_normal");
CATALOG(activations, ACTIVATIONS, "activation", "gelu");
