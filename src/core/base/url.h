/* URLs of databases. A password in one is taken out before anything else sees it, and only the part that connects
 * asks for it again: it is in no message, no file and no run. */
#ifndef TAPEDECK_BASE_URL_H
#define TAPEDECK_BASE_URL_H

#include "tapedeck/base.h"

enum { TD__URL_ROOM = 1024 };

/* Whether text begins like the URL of a database: postgresql:// or postgres://. */
bool td__url_is(const char *text);
/* Copies a URL without its password, which is kept until the process ends, and without what follows the first '#': the
 * name of a run (NULL: not wanted). TD_INVALID for one that is too long or whose password cannot be recognised. */
TD_NODISCARD td_status td__url_take(const char *text, char url[TD__URL_ROOM],
                                    char run[TD__URL_ROOM], td_error *error);
/* What a run is called by its place: the last part of a folder's path, or of URL#NAME the name. Points into place, which is
 * returned itself where it has no such part. */
const char *td__place_name(const char *place);
/* Takes the option tensors=database, which is our own and no driver's, out of such a URL; *tensors: it was there.
 * TD_INVALID where it has another value. */
TD_NODISCARD td_status td__url_tensors(const char *url, char plain[TD__URL_ROOM], bool *tensors,
                                       td_error *error);
/* The password that was taken out of this URL; false when there was none. */
bool td__url_password(const char *url, char password[TD__URL_ROOM]);

#endif
