#include "base/network.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

/* f_type of statfs: numbers that the kernel and the file systems' own headers fix for ever. */
static const uint32_t network_types[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB */
    0xfe534d42, /* SMB 2 */
    0xff534d42, /* CIFS */
    0x65735546, /* FUSE: sshfs, GlusterFS, s3fs … */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS, also named Storage Scale */
    0x19830326, /* BeeGFS */
    0x00c36400, /* Ceph */
    0x20030528, /* OrangeFS */
    0x7461636f, /* OCFS2 */
    0x01161970, /* GFS2 */
    0x01021997, /* 9P */
    0x6a656a63, /* virtiofs */
    0x5346414f, /* AFS */
    0x73757245, /* Coda */
    0xaad7aaea, /* PanFS */
};

bool td__folder_is_network(int folder) {
    const char *wish = getenv("TAPEDECK_FILES");
    if (wish && (strcmp(wish, "network") == 0 || strcmp(wish, "local") == 0)) {
        return *wish == 'n';
    }
    struct statfs about;
    bool network = false;
    if (fstatfs(folder, &about) == 0) {
        for (size_t i = 0; i < TD__COUNT(network_types); i++) {
            network |= (uint32_t)about.f_type == network_types[i];
        }
    }
    return network;
}
