#include "facts.h"

#include "json.h"
#include "options.h"
#include "reading.h"
#include "terminal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Memory for so little has no use for a way out. */
static void *grow(void *items, size_t *capacity, size_t size) {
    *capacity = *capacity ? 2 * *capacity : 32;
    void *grown = realloc(items, *capacity * size);
    if (!grown) {
        exit(fail(EXIT_BAD, "out of memory"));
    }
    return grown;
}

char *copy_text(const char *text) {
    char *made = strdup(text);
    if (!made) {
        exit(fail(EXIT_BAD, "out of memory"));
    }
    return made;
}

/* The setting that "config.KEY" names, as Python's table of runs calls it; NULL: the key is none of these. */
static const char *setting_named(const char *key) {
    const char *before = "config.";
    size_t length = strlen(before);
    return strncmp(key, before, length) == 0 ? key + length : NULL;
}

const char *facts_get(const facts *all, const char *key) {
    const char *setting = setting_named(key), *found = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const fact *item = &all->items[i];
        if (strcmp(item->key, key) == 0) {
            return item->value;
        }
        if (setting && item->setting && strcmp(item->key, setting) == 0) {
            found = item->value;
        }
    }
    return found;
}

static void add_fact(facts *all, const char *key, const char *value, bool setting) {
    if (facts_get(all, key)) {
        return;
    }
    if (all->count == all->capacity) {
        all->items = grow(all->items, &all->capacity, sizeof *all->items);
    }
    all->items[all->count++] = (fact){copy_text(key), copy_text(value), setting};
}

void facts_add(facts *all, const char *key, const char *value) {
    add_fact(all, key, value, false);
}

void facts_release(facts *all) {
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].key);
        free(all->items[i].value);
    }
    free(all->items);
    *all = (facts){0};
}

/* ---- Of a run ------------------------------------------------------------------------------- */

static void add_note(void *user, const char *key, const char *value) {
    facts_add(user, key, value);
}

static void add_setting(void *user, const char *key, const char *value) {
    add_fact(user, key, value, true);
}

static void add_integer(facts *all, const char *key, int64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    facts_add(all, key, text);
}

static void add_metric(facts *all, const td_run_signal *signal, const td_extremes *values) {
    char key[400], text[32];
    int64_t step;
    (void)snprintf(text, sizeof text, "%.9g", values->last);
    facts_add(all, signal->name, text);
    (void)snprintf(text, sizeof text, "%.9g", td_run_best(signal, values, &step));
    (void)snprintf(key, sizeof key, "%.380s.best", signal->name);
    facts_add(all, key, text);
    (void)snprintf(key, sizeof key, "%.380s.best_step", signal->name);
    add_integer(all, key, step);
}

td_status facts_collect(facts *all, const td_run_summary *summary, td_error *error) {
    const td_run_info *info = summary->info;
    char when[32];
    facts_add(all, "name", info->name);
    facts_add(all, "folder", info->folder);
    facts_add(all, "state", info->events ? info->format : td_run_state_name(info->state));
    facts_add(all, "started", format_when(when, info->started));
    add_integer(all, "epoch", info->last_epoch);
    add_integer(all, "step", info->last_step);
    add_integer(all, "bytes", info->bytes);
    add_integer(all, "dropped", info->dropped);
    td_run *run = td_run_open(info->folder, error); /* the summary's has the main metrics alone */
    td_status status = run ? td_run_refresh(run, error) : error->status;
    for (size_t i = 0; !status && i < td_run_signal_count(run); i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        td_extremes values;
        if (signal->forms & TD_SCALAR && td_run_extremes(run, signal, &values)) {
            add_metric(all, signal, &values);
        }
    }
    status = status ? status : td_run_notes(run, "run", add_note, all, error);
    status = status ? status : td_run_settings(run, add_setting, all, error);
    td_run_close(run);
    return status;
}

bool text_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end;
}

/* ---- Filters -------------------------------------------------------------------------------- */

static bool compare_numbers(double a, const char *operation, double b) {
    switch (operation[0]) {
    case '<':
        return operation[1] == '=' ? a <= b : a < b;
    case '>':
        return operation[1] == '=' ? a >= b : a > b;
    case '!':
        return a != b;
    default:
        return a == b;
    }
}

/* One of the texts between commas. */
static bool has_text(const char *list, const char *glob) {
    char word[256];
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        (void)snprintf(word, sizeof word, "%.*s", length < 255 ? (int)length : 255, list);
        if (td_run_matches(glob, word)) {
            return true;
        }
    }
    return false;
}

/* What a run need not have. */
static bool is_remark(const char *key) {
    static const char *const keys[] = {"tags", "notes", "group", "title", "starred", "archived"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

int facts_match(const facts *all, const char *expression) {
    char key[256], operation[3] = "", wanted[256];
    int end = -1;
    if (sscanf(expression, " %255[A-Za-z0-9_.@/-] %2[<>=!] %255[^\n]%n", key, operation, wanted,
               &end) != 3 ||
        end < 0 || expression[end]) {
        return -1;
    }
    for (size_t i = strlen(wanted); i && wanted[i - 1] == ' ';) {
        wanted[--i] = 0;
    }
    const char *value = facts_get(all, key);
    double a, b;
    if (!value) {
        return is_remark(key) ? operation[0] == '!' : -1;
    }
    bool number = text_number(value, &a);
    if (number && text_number(wanted, &b)) {
        return compare_numbers(a, operation, b);
    }
    if (number && operation[1]) { /* "loss == 0.2 and …" is an expression */
        return -1;
    }
    bool same = strcmp(value, wanted) == 0 || has_text(value, wanted);
    return operation[0] == '=' ? same : operation[0] == '!' ? !same : -1;
}

bool facts_named(const char *expression) {
    const char *equals = strchr(expression, '=');
    return equals && equals[1] != '=' && (equals == expression || !strchr("<>=!", equals[-1]));
}

/* ---- Several runs as one -------------------------------------------------------------------- */

static bool is_alike(const facts *a, const facts *b, const char *varying) {
    for (size_t i = 0; i < a->count; i++) {
        const fact *item = &a->items[i];
        if (!item->setting || strcmp(item->key, "name") == 0 ||
            td_run_matches(varying, item->key)) {
            continue;
        }
        const char *other = facts_get(b, item->key);
        if (!other || strcmp(other, item->value) != 0) {
            return false;
        }
    }
    return true;
}

bool facts_alike(const facts *a, const facts *b, const char *varying) {
    return is_alike(a, b, varying) && is_alike(b, a, varying);
}

/* The fact over all of a group: false where it is a text that differs, or one that not all have. */
static bool merge_fact(const fact *item, const facts *const *group, size_t count, char *out,
                       size_t size) {
    double sum = 0, squares = 0, number;
    bool same = true, numbers = true;
    for (size_t i = 0; i < count; i++) {
        const char *value = facts_get(group[i], item->key);
        same = same && value && strcmp(value, item->value) == 0;
        numbers = numbers && value && text_number(value, &number);
        sum += numbers ? number : 0;
    }
    if (same) {
        (void)snprintf(out, size, "%s", item->value);
    } else if (numbers) {
        double mean = sum / (double)count;
        for (size_t i = 0; i < count; i++) {
            (void)text_number(facts_get(group[i], item->key), &number);
            squares += (number - mean) * (number - mean);
        }
        (void)snprintf(out, size, "%.5g ± %.2g", mean, sqrt(squares / (double)(count - 1)));
    }
    return same || numbers;
}

facts facts_merge(const facts *const *group, size_t count, const char *varying) {
    facts all = {0};
    char text[4096];
    add_integer(&all, "runs", (int64_t)count);
    for (size_t i = 0; i < group[0]->count; i++) {
        const fact *item = &group[0]->items[i];
        bool varies = item->setting && td_run_matches(varying, item->key);
        if (!varies && merge_fact(item, group, count, text, sizeof text)) {
            add_fact(&all, item->key, text, item->setting);
        }
    }
    return all;
}

/* ---- Columns -------------------------------------------------------------------------------- */

typedef struct keys {
    const char **items;
    size_t count, capacity;
} keys;

static bool has_key(const keys *all, const char *key) {
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->items[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void add_key(keys *all, const char *key) {
    if (has_key(all, key)) {
        return;
    }
    if (all->count == all->capacity) {
        all->items = grow(all->items, &all->capacity, sizeof *all->items);
    }
    all->items[all->count++] = key;
}

static bool is_differing(const char *key, const facts *runs, size_t count) {
    const char *first = count ? facts_get(&runs[0], key) : NULL;
    for (size_t i = 1; i < count; i++) {
        const char *value = facts_get(&runs[i], key);
        if (!first != !value || (first && strcmp(first, value) != 0)) {
            return true;
        }
    }
    return false;
}

/* Whether a word of --columns names this fact. A glob is not about what only programs ask for. */
static bool is_named(const char *word, const fact *item, const facts *runs, size_t count) {
    if (strcmp(word, "differing") == 0) {
        return item->setting && strcmp(item->key, "name") != 0 &&
               is_differing(item->key, runs, count);
    }
    const char *setting = setting_named(word);
    return strcmp(word, item->key) == 0 || td_run_matches(word, item->key) ||
           (setting && item->setting && td_run_matches(setting, item->key));
}

const char **choose_columns(const command *cmd, const char *list, const facts *runs, size_t count,
                            size_t *column_count) {
    keys chosen = {0}, known = {0};
    bool good = true;
    for (size_t length; good && *list; list += length + (list[length] == ',')) {
        char word[256];
        length = strcspn(list, ",");
        (void)snprintf(word, sizeof word, "%.*s", length < 255 ? (int)length : 255, list);
        size_t before = chosen.count;
        bool named = strcmp(word, "differing") == 0;
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < runs[i].count; k++) {
                const fact *item = &runs[i].items[k];
                add_key(&known, item->key);
                if (is_named(word, item, runs, count)) {
                    add_key(&chosen, item->key);
                    named = true;
                }
            }
        }
        named |= chosen.count > before;
        if (!named) {
            const char *nearest = td_nearest_word(word, known.items, known.count);
            (void)misuse(cmd, "no run has a '%s'%s%s%s", word, nearest ? "; did you mean '" : "",
                         nearest ? nearest : "", nearest ? "'?" : "");
            good = false;
        }
    }
    free((void *)known.items);
    *column_count = chosen.count;
    if (!good) {
        free((void *)chosen.items);
        return NULL;
    }
    return chosen.items ? chosen.items : grow(NULL, &chosen.capacity, sizeof *chosen.items);
}

/* ---- Printing ------------------------------------------------------------------------------- */

/* A spreadsheet would run a text that begins like a formula. */
static void print_csv_text(const char *text) {
    double number;
    if (*text && strchr("=+-@\t\r", *text) && !text_number(text, &number)) {
        char *quoted = malloc(strlen(text) + 2);
        if (quoted) {
            (void)sprintf(quoted, "'%s", text);
            print_csv_field(quoted);
        }
        free(quoted);
        return;
    }
    print_csv_field(text);
}

void print_csv(const facts *runs, size_t count, const char *const *columns, size_t column_count) {
    for (size_t k = 0; k < column_count; k++) {
        (void)fputs(k ? "," : "", stdout);
        print_csv_text(columns[k]);
    }
    (void)putchar('\n');
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < column_count; k++) {
            const char *value = facts_get(&runs[i], columns[k]);
            (void)fputs(k ? "," : "", stdout);
            print_csv_text(value ? value : "");
        }
        (void)putchar('\n');
    }
}

enum { MAX_WIDTH = 40 };

/* A cell as it is shown: numbers with six digits. */
static const char *cell_text(char out[64], const facts *run, const char *key) {
    const char *value = facts_get(run, key);
    double number;
    if (!value) {
        return "-";
    }
    if (!text_number(value, &number) || strlen(value) <= 7) {
        return value;
    }
    (void)snprintf(out, 64, number == rint(number) && fabs(number) < 1e15 ? "%.0f" : "%.6g",
                   number);
    return out;
}

static bool is_numeric(const facts *runs, size_t count, const char *key) {
    double number;
    for (size_t i = 0; i < count; i++) {
        const char *value = facts_get(&runs[i], key);
        if (value && !strstr(value, "±") && !text_number(value, &number)) {
            return false;
        }
    }
    return true;
}

static void print_cell(const char *text, int width, bool right) {
    int length = terminal_columns(text);
    (void)printf("%*s", right && length < width ? width - length : 0, "");
    terminal_print_name(text, right && length < width ? length : width);
}

void print_columns(const facts *runs, size_t count, const char *const *columns,
                   size_t column_count) {
    int left = terminal_room(), *widths = calloc(column_count + 1, sizeof *widths);
    bool *right = calloc(column_count + 1, sizeof *right);
    char text[64];
    size_t shown = 0;
    if (!widths || !right) {
        exit(fail(EXIT_BAD, "out of memory"));
    }
    for (size_t k = 0; k < column_count && shown == k; k++) {
        int width = terminal_columns(columns[k]);
        for (size_t i = 0; i < count; i++) {
            int length = terminal_columns(cell_text(text, &runs[i], columns[k]));
            width = length > width ? length : width;
        }
        widths[k] = width < MAX_WIDTH ? width : MAX_WIDTH;
        right[k] = is_numeric(runs, count, columns[k]);
        shown += left == INT_MAX || left >= widths[k] || k == 0;
        left -= left == INT_MAX ? 0 : widths[k] + 2;
    }
    bool colour = terminal_has_colour(stdout);
    for (size_t i = 0; i <= count; i++) { /* the header first */
        terminal_paint(colour && i == 0, "1");
        for (size_t k = 0; k < shown; k++) {
            (void)fputs(k ? "  " : "", stdout);
            print_cell(i ? cell_text(text, &runs[i - 1], columns[k]) : columns[k], widths[k],
                       right[k]);
        }
        terminal_paint(colour && i == 0, "0");
        (void)putchar('\n');
    }
    if (shown < column_count) {
        (void)fail(EXIT_GOOD, "note: %zu column%s did not fit; --csv prints all",
                   column_count - shown, plural((int64_t)(column_count - shown)));
    }
    free(widths);
    free(right);
}
