/* Messages by MPI: the only file that knows it. Compiled once for each MPI, whose binary interfaces differ. */
#include "group/transport.h"

#include "tapedeck/base.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

TD_API const td__transport *td_mpi_plugin(int version);

static MPI_Comm world = MPI_COMM_NULL;
static bool initialized_here;

/* OpenMPI opens components of its own that look for its symbols among those of the program. */
static void show_symbols(void) {
#ifdef OPEN_MPI
    (void)dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
#endif
}

static bool initialize(char *problem, size_t problem_size) {
    int ready = 0, level = 0;
    (void)MPI_Initialized(&ready);
    if (ready) {
        (void)MPI_Query_thread(&level);
    } else {
        show_symbols();
        initialized_here =
            MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) == MPI_SUCCESS;
        ready = initialized_here;
    }
    if (!ready || level < MPI_THREAD_SERIALIZED) {
        (void)snprintf(problem, problem_size,
                       ready ? "MPI was initialised without MPI_THREAD_SERIALIZED"
                             : "MPI cannot be initialised");
        return false;
    }
    return true;
}

static bool open_world(void *context, int *rank, int *size, char host[TD__HOST_SIZE], char *problem,
                       size_t problem_size) {
    (void)context;
    char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    if (!initialize(problem, problem_size)) {
        return false;
    }
    if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(world, rank) != MPI_SUCCESS || MPI_Comm_size(world, size) != MPI_SUCCESS ||
        MPI_Get_processor_name(name, &length) != MPI_SUCCESS) {
        (void)snprintf(problem, problem_size, "MPI failed to begin");
        return false;
    }
    (void)snprintf(host, TD__HOST_SIZE, "%s", name);
    return true;
}

static void *begin_request(int result, MPI_Request *request) {
    if (request && result == MPI_SUCCESS) {
        return request;
    }
    free(request);
    return NULL;
}

static void *send_message(void *context, const void *data, size_t size, int to, int tag) {
    (void)context;
    MPI_Request *request = malloc(sizeof *request);
    return begin_request(request ? MPI_Isend(data, (int)size, MPI_BYTE, to, tag, world, request)
                                 : MPI_ERR_OTHER,
                         request);
}

static void *receive_message(void *context, void *data, size_t size, int from, int tag) {
    (void)context;
    MPI_Request *request = malloc(sizeof *request);
    int source = from == TD__ANY_RANK ? MPI_ANY_SOURCE : from;
    return begin_request(request ? MPI_Irecv(data, (int)size, MPI_BYTE, source, tag, world, request)
                                 : MPI_ERR_OTHER,
                         request);
}

static int test_message(void *context, void *message) {
    (void)context;
    int done = 0;
    if (MPI_Test(message, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        free(message);
        return -1;
    }
    if (done) {
        free(message);
    }
    return done != 0;
}

static void cancel_message(void *context, void *message) {
    (void)context;
    (void)MPI_Cancel(message);
    (void)MPI_Wait(message, MPI_STATUS_IGNORE);
    free(message);
}

static void close_world(void *context) {
    (void)context;
    (void)MPI_Comm_free(&world);
    if (initialized_here) {
        (void)MPI_Finalize();
    }
}

const td__transport *td_mpi_plugin(int version) {
    static const td__transport transport = {
        .version = TD__TRANSPORT_VERSION,
        .open = open_world,
        .send = send_message,
        .receive = receive_message,
        .test = test_message,
        .cancel = cancel_message,
        .close = close_world,
    };
    return version == TD__TRANSPORT_VERSION ? &transport : NULL;
}
