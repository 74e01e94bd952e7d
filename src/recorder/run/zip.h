/* Zip files of stored members: what numpy.load reads as .npz. */
#ifndef TAPEDECK_RUN_ZIP_H
#define TAPEDECK_RUN_ZIP_H

#include "tapedeck/base.h"

/* Packs every *.npy of folder into a new file at path. TD_RANGE beyond 4 GiB, TD_EXISTS when path
 * is there already. */
TD_NODISCARD td_status td__zip_arrays(const char *folder, const char *path, td_error *error);

#endif
