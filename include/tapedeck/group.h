/* The processes of one launch, started by mpirun or srun, that compute together.
 *
 *     td_group *group = td_group_open(NULL, &error);       // NULL: not launched so, or no MPI
 *     status = td_group_add(group, values, count, &error); // everywhere the sum over all processes
 *     td_group_close(group);
 *
 * Every process calls the same functions in the same order. Sums are taken in a fixed tree: first of ranks 0 and
 * 1, 2 and 3, …, then of these pairs. A group belongs to one thread at a time; a thread of its own exchanges the
 * messages, so that a sum that was started goes on while the caller computes.
 *
 * MPI is a plugin, libtapedeck-mpi-openmpi.so or libtapedeck-mpi-mpich.so, which is loaded when a group is opened.
 * See docs/cluster.md.
 */
#ifndef TAPEDECK_GROUP_H
#define TAPEDECK_GROUP_H

#include "tapedeck/base.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_group td_group;
typedef struct td_group_request td_group_request;

/* Zero means default. */
typedef struct td_group_options {
    size_t size;     /* sizeof(td_group_options) */
    const char *mpi; /* "openmpi" or "mpich"; NULL: TAPEDECK_MPI, or by the launcher's variables */
    double
        timeout; /* seconds of silence after which a process is lost; 0: TAPEDECK_GROUP_TIMEOUT, or 5 */
} td_group_options;

/* Whether a launcher of MPI programs started this process (variables OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK). */
TD_API bool td_group_is_launched(void);
/* options may be NULL. NULL on failure: TD_NOT_FOUND when no launcher started this process, TD_UNSUPPORTED when the
 * plugin is missing. One group at a time in a process. */
TD_API td_group *td_group_open(const td_group_options *options, td_error *error);
/* Waits until every process closes its group, unless one of them is lost or failed. Accepts NULL. */
TD_API void td_group_close(td_group *group);
/* Informs the others that this process ends, and why: what they exchange fails with this reason. */
TD_API void td_group_fail(td_group *group, const char *reason);
/* TD_OK as long as no process is lost; else TD_IO, with its rank and its machine. */
TD_API TD_NODISCARD td_status td_group_status(td_group *group, td_error *error);

TD_API int td_group_rank(const td_group *group); /* from 0 */
TD_API int td_group_size(const td_group *group);
/* How many of the group are on this machine. */
TD_API int td_group_local_size(const td_group *group);
/* The machine that a process is on; the group's. */
TD_API const char *td_group_host(const td_group *group, int rank);

/* All of these fail with TD_IO when a process is lost: the text names its rank and its machine. Nothing can be
 * exchanged from then on. */

/* values[i] = the sum over all processes, the same bits in each. */
TD_API TD_NODISCARD td_status td_group_add(td_group *group, float *values, size_t count,
                                           td_error *error);
/* Begins such a sum; values are the group's until td_group_wait, which every request needs. Sums are exchanged in the
 * order in which they were started. NULL on failure. */
TD_API td_group_request *td_group_add_start(td_group *group, float *values, size_t count,
                                            td_error *error);
/* Ends the request. */
TD_API TD_NODISCARD td_status td_group_wait(td_group *group, td_group_request *request,
                                            td_error *error);
/* data of the process `root` in all of them. */
TD_API TD_NODISCARD td_status td_group_broadcast(td_group *group, void *data, size_t size, int root,
                                                 td_error *error);
/* all = the `size` bytes of each process, by rank, in every process. */
TD_API TD_NODISCARD td_status td_group_gather(td_group *group, const void *mine, size_t size,
                                              void *all, td_error *error);
TD_API TD_NODISCARD td_status td_group_barrier(td_group *group, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
