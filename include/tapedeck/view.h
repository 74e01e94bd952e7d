/* Looking at runs in a browser.
 *
 *     td_viewer *viewer = td_viewer_open("runs", NULL, &error);
 *     puts(td_viewer_url(viewer));        // http://127.0.0.1:6464/?token=…
 *     …                                   // it serves from threads of its own
 *     td_viewer_close(viewer);
 *
 * A viewer only reads, unless td_viewer_options.write is set. It listens at 127.0.0.1 unless .host says
 * otherwise, and refuses every request without the token. It needs libtapedeck-http.so beside the library (Debian's libmicrohttpd12);
 * reports need nothing.
 */
#ifndef TAPEDECK_VIEW_H
#define TAPEDECK_VIEW_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_viewer td_viewer;

enum { TD_ANY_PORT = -1 }; /* a port that the system chooses */

typedef struct td_viewer_options {
    size_t size;      /* sizeof(td_viewer_options) */
    const char *host; /* an address or name to listen at; NULL: 127.0.0.1 */
    int port;         /* TD_ANY_PORT, or 0: 6464, or any that is free when that is taken */
    bool write;       /* tags, notes, stars and the archive are kept in the runs */
    /* The path of `tapedeck`, which executes steps again when a page asks for it; NULL: pages
     * show the command instead. */
    const char *program;
    const char *token_file; /* the token is that of this file, which is made when there is none: an
                             * address stays valid when the viewer is started again. NULL: a new one */
} td_viewer_options;

/* Serves the runs at and below folder, those that come later too. options may be NULL. NULL on
 * failure: TD_NOT_FOUND when there is no such folder, TD_UNSUPPORTED without the plugin, TD_IO when
 * it cannot listen. */
TD_API td_viewer *td_viewer_open(const char *folder, const td_viewer_options *options,
                                 td_error *error);
/* With the token; valid until td_viewer_close. */
TD_API const char *td_viewer_url(const td_viewer *viewer);
/* Accepts NULL. */
TD_API void td_viewer_close(td_viewer *viewer);

/* Writes the same pages, and what they show of these runs, as one file that needs no network:
 * lines in as many points as a screen has, the tensors and pictures that a few megabytes hold.
 * The file is there whole or not at all. TD_INCOMPLETE: it is there, without what could not be
 * read, and error names the first of that. */
TD_API TD_NODISCARD td_status td_report(const char *const *runs, size_t count, const char *path,
                                        td_error *error);
/* The same; it opens with this view: what stands after '#' in the viewer's address, or
 * PAGE?KEY=VALUE of the first run. NULL: the list of runs. */
TD_API TD_NODISCARD td_status td_report_view(const char *const *runs, size_t count,
                                             const char *path, const char *view, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
