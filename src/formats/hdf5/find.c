/* Paths and listings: from links to the objects they lead to.
 *
 * Only hard and soft links are followed, and only LINKS_FOLLOWED soft ones for a path, so that
 * links which lead to each other end in an error; a listing follows LINKS_LISTED. */
#include "hdf5/group.h"

enum { LINKS_FOLLOWED = 32, LINKS_LISTED = 1024, NAME_SHOWN = 200 };

typedef struct search {
    const char *name;
    size_t size;
    bool found;
    td__h5_link link;
} search;

static td_status compare_link(void *user, const td__h5_link *link, td_error *error) {
    (void)error;
    search *wanted = user;
    if (!wanted->found && link->name_size == wanted->size &&
        !memcmp(link->name, wanted->name, wanted->size)) {
        wanted->found = true;
        wanted->link = *link;
    }
    return TD_OK;
}

static td_status resolve(const td__hdf5 *file, td__hdf5_object from, const char *path, size_t size,
                         int *followed, td__hdf5_object *found, td_error *error);

static td_status follow_link(const td__hdf5 *file, td__hdf5_object group, const td__h5_link *link,
                             int *followed, td__hdf5_object *found, td_error *error) {
    int shown = link->name_size < NAME_SHOWN ? (int)link->name_size : NAME_SHOWN;
    switch (link->kind) {
    case TD__H5_HARD:
        *found = link->object;
        return TD_OK;
    case TD__H5_SOFT:
        if (++*followed > LINKS_FOLLOWED) {
            return td_error_set(error, TD_FORMAT,
                                "%s: '%.*s': more than %d soft links lead to each other",
                                file->origin, shown, link->name, LINKS_FOLLOWED);
        }
        return resolve(file, group, link->target, link->target_size, followed, found, error);
    default:
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: '%.*s' is an external or user-defined link; only links inside "
                            "the file are followed",
                            file->origin, shown, link->name);
    }
}

static td_status resolve(const td__hdf5 *file, td__hdf5_object from, const char *path, size_t size,
                         int *followed, td__hdf5_object *found, td_error *error) {
    td__hdf5_object object = size > 0 && *path == '/' ? file->root : from;
    const char *end = path + size;
    while (path < end && object) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        search wanted = {.name = path, .size = (size_t)((slash ? slash : end) - path)};
        path = slash ? slash + 1 : end;
        if (wanted.size == 0 || (wanted.size == 1 && *wanted.name == '.')) {
            continue;
        }
        td_status status = td__h5_links(file, object, compare_link, &wanted, error);
        td__hdf5_object next = 0;
        if (!status && wanted.found) {
            status = follow_link(file, object, &wanted.link, followed, &next, error);
        }
        if (status) {
            return status;
        }
        object = next;
    }
    *found = object;
    return TD_OK;
}

td_status td__hdf5_find(td__hdf5 *file, td__hdf5_object from, const char *path,
                        td__hdf5_object *found, td_error *error) {
    int followed = 0;
    return resolve(file, from, path, strlen(path), &followed, found, error);
}

typedef struct listing {
    const td__hdf5 *file;
    td__hdf5_object group;
    td__hdf5_each *each;
    void *user;
    int followed; /* soft links */
} listing;

static td_status list_link(void *user, const td__h5_link *link, td_error *error) {
    listing *list = user;
    char name[TD__H5_NAME_SIZE];
    memcpy(name, link->name, link->name_size);
    name[link->name_size] = 0;
    td__hdf5_object object = 0;
    int followed = 0;
    td_status status = follow_link(list->file, list->group, link, &followed, &object, error);
    list->followed += followed;
    if (!status && list->followed > LINKS_LISTED) {
        status = td__h5_unsupported(list->file, "a group with more than 1024 soft links", error);
    }
    return status ? status : list->each(list->user, name, object, error);
}

td_status td__hdf5_list(td__hdf5 *file, td__hdf5_object group, td__hdf5_each *each, void *user,
                        td_error *error) {
    listing list = {file, group, each, user, 0};
    return td__h5_links(file, group, list_link, &list, error);
}
