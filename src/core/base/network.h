/* Which file systems are shared by several machines. */
#ifndef TAPEDECK_BASE_NETWORK_H
#define TAPEDECK_BASE_NETWORK_H

#include "tapedeck/base.h"

/* Whether an open folder is on a file system that other machines may see too (NFS, Lustre, GPFS, CIFS, FUSE and
 * the like): shared memory and byte-range locks are then not to be relied on. The environment variable
 * TAPEDECK_FILES, `network` or `local`, decides instead when it is set. */
bool td__folder_is_network(int folder);

#endif
