/* How much memory this process may take: the smallest of what the machine has, what its control groups
 * allow (a container's limit is one), and its own resource limits. */
#include "base/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* What a small file holds, cut to fit; "" when it cannot be read. Without the heap, so that a limit can
 * be asked for where that is used up. */
static void read_text(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, text, size - 1);
    text[got > 0 ? got : 0] = 0;
    if (file >= 0) {
        (void)close(file);
    }
}

/* The number in a file; SIZE_MAX when there is none, or the word "max". */
static size_t read_number(const char *path) {
    char text[32], *end;
    read_text(path, text, sizeof text);
    unsigned long long number = strtoull(text, &end, 10);
    return end > text && number < SIZE_MAX ? (size_t)number : SIZE_MAX;
}

/* The smallest limit of a group and of those above it. */
static size_t group_limit(const char *root, const char *controller, char *group, const char *name) {
    size_t limit = SIZE_MAX;
    for (bool more = true; more;) {
        char path[2 * PATH_MAX];
        (void)snprintf(path, sizeof path, "%s%s%s/%s", root, controller, group, name);
        limit = min_size(limit, read_number(path));
        char *last = strrchr(group, '/');
        more = last;
        if (last) {
            *last = 0;
        }
    }
    return limit;
}

size_t td__memory_group_limit(const char *groups, const char *root) {
    size_t limit = SIZE_MAX;
    char text[PATH_MAX], *rest = text, *line;
    read_text(groups, text, sizeof text);
    while ((line = strsep(&rest, "\n"))) { /* "4:memory:/a/b", of version 2 "0::/a/b" */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group && !strncmp(controllers, "::", 2)) {
            limit = min_size(limit, group_limit(root, "", group + 1, "memory.max"));
        } else if (group && strstr(controllers, "memory:")) {
            limit =
                min_size(limit, group_limit(root, "/memory", group + 1, "memory.limit_in_bytes"));
        }
    }
    return limit;
}

size_t td__memory_limit(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    size_t limit = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : (size_t)2 << 30;
    struct rlimit own;
    if (!getrlimit(RLIMIT_AS, &own) && own.rlim_cur != RLIM_INFINITY) {
        limit = min_size(limit, (size_t)own.rlim_cur);
    }
    if (!getrlimit(RLIMIT_DATA, &own) && own.rlim_cur != RLIM_INFINITY) {
        limit = min_size(limit, (size_t)own.rlim_cur);
    }
    return min_size(limit, td__memory_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

size_t td__memory_half(void) {
    return td__memory_limit() / 2;
}
