#include "deck/route.h"

#include "base/memory.h"
#include "deck/glob.h"

#include <stdio.h>
#include <string.h>

enum { LIST_SIZE = 256 };

static void add_word(char list[LIST_SIZE], const char *word) {
    size_t used = strlen(list);
    snprintf(list + used, LIST_SIZE - used, "%s%s", used ? ", " : "", word);
}

static void list_forms(char list[LIST_SIZE], uint32_t forms) {
    *list = 0;
    for (; forms; forms &= forms - 1) {
        add_word(list, td_form_name(forms & (0 - forms)));
    }
}

static td_status no_sink(const td_sink_class *const *classes, const char *name, td_error *error) {
    const char *names[TD__SINKS];
    char list[LIST_SIZE] = "";
    size_t count = 0;
    for (; classes[count]; count++) {
        names[count] = classes[count]->name;
        add_word(list, names[count]);
    }
    const char *near = td_nearest_word(name, names, count);
    return td_error_set(error, TD_NOT_FOUND, "there is no sink \"%.60s\"%s%s%s (there are: %s)",
                        name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                        list);
}

static td_status choose_named(const td_sink_class *const *classes, uint32_t form, const char *name,
                              bool chosen[TD__SINKS], td_error *error) {
    size_t i = 0;
    while (classes[i] && strcmp(classes[i]->name, name) != 0) {
        i++;
    }
    if (!classes[i]) {
        return no_sink(classes, name, error);
    }
    if (form && !(classes[i]->forms & form)) {
        char asked[LIST_SIZE], can[LIST_SIZE];
        list_forms(asked, form);
        list_forms(can, classes[i]->forms);
        return td_error_set(error, TD_INVALID, "%s cannot write the form %s; it writes %s", name,
                            asked, can);
    }
    chosen[i] = true;
    return TD_OK;
}

/* A requested form that no sink writes would be lost silently. */
static td_status check_forms(const td_sink_class *const *classes, uint32_t form,
                             const bool chosen[TD__SINKS], td_error *error) {
    char names[LIST_SIZE] = "", lost[LIST_SIZE], can[LIST_SIZE];
    uint32_t forms = 0;
    for (size_t i = 0; classes[i]; i++) {
        if (chosen[i]) {
            forms |= classes[i]->forms;
            add_word(names, classes[i]->name);
        }
    }
    if (!(form & ~forms)) {
        return TD_OK;
    }
    list_forms(lost, form & ~forms);
    list_forms(can, forms);
    return td_error_set(error, TD_INVALID, "%s cannot write the form %s; there is %s", names, lost,
                        can);
}

static td_status choose_standard(const td_sink_class *const *classes, uint32_t form,
                                 bool chosen[TD__SINKS], td_error *error) {
    char list[LIST_SIZE] = "", asked[LIST_SIZE];
    bool any = false;
    for (size_t i = 0; classes[i]; i++) {
        chosen[i] = classes[i]->by_default && (!form || (classes[i]->forms & form));
        any = any || chosen[i];
        if (classes[i]->forms & form) {
            add_word(list, classes[i]->name);
        }
    }
    if (any) {
        return TD_OK;
    }
    list_forms(asked, form);
    return td_error_set(error, TD_INVALID,
                        "none of the default sinks can write the form %s; say where to: %s", asked,
                        list);
}

td_status td__route(const td_sink_class *const *classes, uint32_t form, const char *to,
                    bool chosen[TD__SINKS], td_error *error) {
    td_status status = TD_OK;
    if (to) {
        size_t count;
        char **names = td__glob_split(to, &count);
        if (!names) {
            return td_error_set(error, TD_MEMORY, "out of memory for a track");
        }
        status = count ? TD_OK : td_error_set(error, TD_INVALID, ".to names no sink");
        for (size_t i = 0; i < count && !status; i++) {
            status = choose_named(classes, form, names[i], chosen, error);
        }
        td__free(names);
    } else {
        status = choose_standard(classes, form, chosen, error);
    }
    return status ? status : check_forms(classes, form, chosen, error);
}
