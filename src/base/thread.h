/* Threads of the library's own. */
#ifndef TAPEDECK_BASE_THREAD_H
#define TAPEDECK_BASE_THREAD_H

#include <pthread.h>

/* pthread_create for a thread that receives no signals: those belong to the program's own threads.
 * Returns 0 or an error number. */
int td__thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
