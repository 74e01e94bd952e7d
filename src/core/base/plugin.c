#include "base/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file that this code is in. A program that was found by the search path is known by its bare
 * name, which must not be taken for a file of the working folder. */
static bool find_own(char own[PATH_MAX]) {
    Dl_info about;
    if (!dladdr((void *)(uintptr_t)find_own, &about) || !about.dli_fname) {
        return false;
    }
    return realpath(strchr(about.dli_fname, '/') ? about.dli_fname : "/proc/self/exe", own) != NULL;
}

/* Beside the library or program that this code is in, in tapedeck/ there, or in lib/tapedeck/ of the folder that has
 * the program's bin/ (a Python environment): never by a search path, where somebody else might have put one. */
static bool find_plugin(char *path, size_t size, const char *name) {
    static const char *const folders[] = {"", "tapedeck/", "../lib/tapedeck/"};
    char own[PATH_MAX];
    if (!find_own(own)) {
        return false;
    }
    int length = (int)(strrchr(own, '/') + 1 - own);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int made = snprintf(path, size, "%.*s%slibtapedeck-%s.so", length, own, folders[i], name);
        if (made > 0 && (size_t)made < size && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

void *td__plugin_symbol(const char *name, const char *symbol, const char *package,
                        td_error *error) {
    char path[4096];
    if (!find_plugin(path, sizeof path, name)) {
        td_error_set(error, TD_UNSUPPORTED,
                     package
                         ? "libtapedeck-%s.so is not installed; it is built where %s is there"
                         : "libtapedeck-%s.so is not installed beside the library; the packages "
                           "libtapedeck0 (Debian) and tapedeck (pip) have it",
                     name, package);
        return NULL;
    }
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = plugin ? dlsym(plugin, symbol) : NULL;
    if (!found) {
        td_error_set(error, TD_UNSUPPORTED, "%s; install %s", dlerror(),
                     package ? package : "libtapedeck0 again");
    }
    return found;
}
