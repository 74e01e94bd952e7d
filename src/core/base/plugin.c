#include "base/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Beside the library that this code is in, or in tapedeck/ there: never by a search path, where
 * somebody else might have put one. */
static bool find(char *path, size_t size, const char *name) {
    static const char *const folders[] = {"", "tapedeck/"};
    Dl_info own;
    if (!dladdr((void *)(uintptr_t)find, &own) || !own.dli_fname) {
        return false;
    }
    const char *slash = strrchr(own.dli_fname, '/');
    int length = slash ? (int)(slash + 1 - own.dli_fname) : 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int made = snprintf(path, size, "%.*s%slibtapedeck-%s.so", length,
                            slash ? own.dli_fname : "", folders[i], name);
        if (made > 0 && (size_t)made < size && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

void *td__plugin_symbol(const char *name, const char *symbol, const char *package,
                        td_error *error) {
    char path[4096];
    if (!find(path, sizeof path, name)) {
        td_error_set(error, TD_UNSUPPORTED,
                     "libtapedeck-%s.so is not installed; it is built where %s is there", name,
                     package);
        return NULL;
    }
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = plugin ? dlsym(plugin, symbol) : NULL;
    if (!found) {
        td_error_set(error, TD_UNSUPPORTED, "%s; install %s", dlerror(), package);
    }
    return found;
}
