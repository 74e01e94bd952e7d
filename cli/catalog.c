/* tapedeck list: the layers, losses, metrics, optimizers, … there are, with their options. */
#include "command.h"
#include "json.h"
#include "options.h"

#include "tapedeck/nn.h"

#include <string.h>

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
                     item.required ? "required" : item.by_default, item.other ? "  also " : "",
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
    print_member("default",
                 item->required || !strcmp(item->by_default, "-") ? NULL : item->by_default);
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
        (void)printf(" | %s |\n", item.required ? "required"
                                  : *item.by_default == '-' && !item.by_default[1]
                                      ? ""
                                      : item.by_default);
    }
}

/* ---- The commands ---------------------------------------------------------------------------- */

static void print_entry(td_catalog catalog, size_t index, const td_catalog_entry *entry, bool json,
                        bool markdown, bool first) {
    if (json) {
        print_json(catalog, index, entry, first);
    } else if (markdown) {
        print_markdown(catalog, index, entry);
    } else {
        print_text(catalog, index, entry);
    }
}

/* All entries of a catalog, or the one called `name`. */
static int list_entries(td_catalog catalog, const char *name, bool json, bool markdown) {
    const char *names[256] = {NULL};
    size_t size = td_catalog_size(catalog), found = 0;
    td_catalog_entry entry;
    if (markdown && !name) {
        (void)printf("# All %s\n\nWhat `tapedeck list %s --markdown` prints: options, their "
                     "defaults, and what others call it.\n",
                     td_catalog_name(catalog), td_catalog_name(catalog));
    }
    (void)printf("%s", json ? "[" : "");
    for (size_t i = 0; i < size && td_catalog_entry_at(catalog, i, &entry); i++) {
        names[i < 256 ? i : 255] = entry.name;
        if (!name || !strcmp(name, entry.name)) {
            print_entry(catalog, i, &entry, json, markdown, found == 0);
            found++;
        }
    }
    (void)printf("%s", json ? "\n]\n" : "");
    if (name && !found) {
        const char *nearest = td_nearest_word(name, names, size < 256 ? size : 255);
        return fail(EXIT_BAD, "list: %s has no '%s'%s%s%s", td_catalog_name(catalog), name,
                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    }
    return EXIT_GOOD;
}

/* Without an argument: which lists there are, and how long each is. */
static int list_catalogs(bool json) {
    (void)printf("%s", json ? "[" : "");
    for (int i = 0; i < TD_CATALOG_COUNT; i++) {
        const char *name = td_catalog_name((td_catalog)i);
        size_t size = td_catalog_size((td_catalog)i);
        if (json) {
            (void)printf("%s\n {\"name\": \"%s\", \"entries\": %zu}", i ? "," : "", name, size);
        } else {
            (void)printf("  tapedeck list %-13s %3zu\n", name, size);
        }
    }
    (void)printf("%s", json ? "\n]\n" : "");
    return EXIT_GOOD;
}

static int run_list(int count, char **arguments) {
    bool json = false, markdown = false;
    const option options[] = {{.name = "json", .flag = &json},
                              {.name = "markdown", .flag = &markdown}};
    if (!parse_options(&command_list, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count > 2 || (json && markdown) || (markdown && !count)) {
        return misuse(&command_list, "expected KIND and at most one NAME, and at most one of "
                                     "--json and --markdown");
    }
    if (!count) {
        return list_catalogs(json);
    }
    const char *names[TD_CATALOG_COUNT];
    for (int i = 0; i < TD_CATALOG_COUNT; i++) {
        names[i] = td_catalog_name((td_catalog)i);
        if (!strcmp(names[i], arguments[0])) {
            return list_entries((td_catalog)i, count > 1 ? arguments[1] : NULL, json, markdown);
        }
    }
    const char *nearest = td_nearest_word(arguments[0], names, TD_CATALOG_COUNT);
    return misuse(&command_list, "there is no list of '%s'%s%s%s", arguments[0],
                  nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

const command command_list = {
    .name = "list",
    .summary = "list layers, losses, metrics, optimizers, … with their options and defaults",
    .help = "tapedeck list [KIND [NAME]] [--json | --markdown]\n"
            "\n"
            "Lists all entries of KIND, or the one called NAME, with their options and defaults, "
            "and\n"
            "what Keras and PyTorch call them. KIND is layers, losses, metrics, optimizers, "
            "schedules,\n"
            "initializers or activations; without it the lists are named. In an experiment file, "
            "write\n"
            "NAME, or {NAME: {OPTION: VALUE}}. `tapedeck layers` is short for `tapedeck list "
            "layers`,\n"
            "and likewise for the other lists.\n"
            "\n"
            "  --json       as one JSON array\n"
            "  --markdown   as tables for a document\n"
            "\n"
            "Examples\n"
            "  tapedeck list layers\n"
            "  tapedeck list optimizers adam --json\n"
            "\n"
            "More: docs/experiment.md\n",
    .run = run_list};
