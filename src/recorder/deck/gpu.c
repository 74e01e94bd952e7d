/* NVIDIA's GPUs, through the management library (NVML) that comes with the driver. It is loaded when a deck is
 * opened; where there is none, there are no GPUs. Structs and numbers are those of nvml.h. */
#include "deck/environment.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct utilization {
    unsigned gpu, memory; /* percent */
} utilization;
typedef struct memory {
    unsigned long long total, free, used; /* bytes */
} memory;

struct td__gpus {
    void *library;
    unsigned count;
    void *devices[TD__GPUS];
    int (*shutdown)(void);
    int (*utilization)(void *device, utilization *rates);
    int (*memory)(void *device, memory *bytes);
    int (*power)(void *device, unsigned *milliwatts);
    int (*temperature)(void *device, int sensor, unsigned *degrees);
};

typedef int init_function(void);
typedef int count_function(unsigned *count);
typedef int device_function(unsigned index, void **device);

/* ISO C has no cast from an object's pointer to a function's. */
static void find_function(void *library, const char *name, void *function) {
    *(void **)function = dlsym(library, name);
}

static bool load_library(td__gpus *gpus) {
    init_function *init = NULL;
    count_function *count = NULL;
    device_function *device = NULL;
    gpus->library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!gpus->library) {
        return false;
    }
    find_function(gpus->library, "nvmlInit_v2", &init);
    find_function(gpus->library, "nvmlShutdown", &gpus->shutdown);
    find_function(gpus->library, "nvmlDeviceGetCount_v2", &count);
    find_function(gpus->library, "nvmlDeviceGetHandleByIndex_v2", &device);
    find_function(gpus->library, "nvmlDeviceGetUtilizationRates", &gpus->utilization);
    find_function(gpus->library, "nvmlDeviceGetMemoryInfo", &gpus->memory);
    find_function(gpus->library, "nvmlDeviceGetPowerUsage", &gpus->power);
    find_function(gpus->library, "nvmlDeviceGetTemperature", &gpus->temperature);
    if (!init || !count || !device || !gpus->shutdown || init() != 0) {
        gpus->shutdown = NULL;
        return false;
    }
    unsigned found = 0;
    if (count(&found) != 0) {
        return false;
    }
    for (unsigned i = 0; i < found && i < TD__GPUS; i++) {
        if (device(i, &gpus->devices[gpus->count]) == 0) {
            gpus->count++;
        }
    }
    return gpus->count > 0;
}

td__gpus *td__gpus_open(void) {
    td__gpus *gpus = td__calloc(1, sizeof *gpus);
    if (gpus && !load_library(gpus)) {
        td__gpus_close(gpus);
        return NULL;
    }
    return gpus;
}

static size_t add_value(td__system_value *value, unsigned gpu, const char *what, double number) {
    (void)snprintf(value->name, sizeof value->name, "system.gpu.%u.%s", gpu, what);
    value->value = number;
    return 1;
}

size_t td__gpus_read(const td__gpus *gpus, td__system_value values[4 * TD__GPUS]) {
    size_t n = 0;
    for (unsigned i = 0; gpus && i < gpus->count; i++) {
        void *device = gpus->devices[i];
        utilization rates = {0};
        memory bytes = {0};
        unsigned number = 0;
        if (gpus->utilization && gpus->utilization(device, &rates) == 0) {
            n += add_value(&values[n], i, "load", rates.gpu);
        }
        if (gpus->memory && gpus->memory(device, &bytes) == 0 && bytes.total > 0) {
            n += add_value(&values[n], i, "memory", 100 * (double)bytes.used / (double)bytes.total);
        }
        if (gpus->power && gpus->power(device, &number) == 0) {
            n += add_value(&values[n], i, "power", 1e-3 * number);
        }
        if (gpus->temperature && gpus->temperature(device, 0, &number) == 0) {
            n += add_value(&values[n], i, "temperature", number);
        }
    }
    return n;
}

void td__gpus_close(td__gpus *gpus) {
    if (!gpus) {
        return;
    }
    if (gpus->shutdown) {
        (void)gpus->shutdown();
    }
    if (gpus->library) {
        (void)dlclose(gpus->library);
    }
    td__free(gpus);
}
