/* Optional engines: shared objects beside the library, loaded when they are first needed. Most bring a
 * third-party library of their own. */
#ifndef TAPEDECK_BASE_PLUGIN_H
#define TAPEDECK_BASE_PLUGIN_H

#include "tapedeck/base.h"

/* The symbol of libtapedeck-NAME.so, which stays loaded. NULL: TD_UNSUPPORTED, with a sentence that
 * names the missing Debian package. package: what the plugin needs; NULL: nothing but the library. */
void *td__plugin_symbol(const char *name, const char *symbol, const char *package, td_error *error);

#endif
