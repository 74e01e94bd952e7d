/* The ring: checkpoints of the past in RUN/ring, so that any step is a bounded replay away.
 *
 * A checkpoint that is no longer one of the newest (train.checkpoint.keep) moves here instead of being
 * removed. Together they stay within train.checkpoint.budget: where they do not, the one goes that leaves the
 * smallest gap for its age, so that gaps grow with the distance from the last step. The first step needs
 * none: it follows from the experiment. */
#include "train/trainer.h"

#include "base/folder.h"
#include "base/memory.h"
#include "model/load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RING "ring"
enum { MAX_RING = 128 };

typedef struct slot {
    int64_t step, bytes;
    char name[64];
} slot;

static int by_slot(const void *a, const void *b) {
    int64_t x = ((const slot *)a)->step, y = ((const slot *)b)->step;
    return x < y ? -1 : x > y;
}

int64_t td__checkpoint_step(const char *name) {
    return strtoll(name + strlen("step-"), NULL, 10);
}

/* Checkpoints in the ring, by step; those beyond the maximum are left alone. */
static size_t list_ring(int ring, slot slots[MAX_RING + 1]) {
    size_t count = 0;
    DIR *listing = td__folder_list(ring);
    for (struct dirent *entry; listing && count <= MAX_RING && (entry = readdir(listing));) {
        struct stat about;
        if (td__is_checkpoint(entry->d_name) && strlen(entry->d_name) < sizeof slots->name &&
            fstatat(ring, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode)) {
            slot *s = &slots[count++];
            s->step = td__checkpoint_step(entry->d_name);
            s->bytes = about.st_size;
            (void)snprintf(s->name, sizeof s->name, "%s", entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
    qsort(slots, count, sizeof *slots, by_slot);
    return count;
}

/* The one whose removal costs least: the gap that it leaves, by its distance from the last step. */
static size_t choose_victim(const slot *slots, size_t count, int64_t last) {
    size_t victim = 0;
    double lowest_cost = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t before = i ? slots[i - 1].step : 0,
                after = i + 1 < count ? slots[i + 1].step : last;
        double cost = (double)(after - before) / (double)(last - slots[i].step + 1);
        if (i == 0 || cost < lowest_cost) {
            victim = i;
            lowest_cost = cost;
        }
    }
    return victim;
}

static void trim(int ring, int64_t budget, int64_t last) {
    slot *slots = td__calloc(MAX_RING + 1, sizeof *slots);
    size_t count = slots ? list_ring(ring, slots) : 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += slots[i].bytes;
    }
    while (count && (bytes > budget || count > MAX_RING)) {
        size_t victim = choose_victim(slots, count, last);
        if (unlinkat(ring, slots[victim].name, 0) != 0) {
            break; /* what cannot be removed stays; the next one tries again */
        }
        bytes -= slots[victim].bytes;
        count--;
        memmove(&slots[victim], &slots[victim + 1], (count - victim) * sizeof *slots);
    }
    td__free(slots);
}

bool td__ring_take(td_trainer *trainer, int checkpoints, const char *name) {
    struct stat about;
    int64_t budget = trainer->experiment->train.checkpoint_budget;
    if (fstatat(checkpoints, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size > budget) {
        return false;
    }
    int ring = td__folder_create(trainer->recording.opened, RING, NULL);
    bool moved = ring >= 0 && renameat(checkpoints, name, ring, name) == 0;
    if (moved) {
        trim(ring, budget, trainer->at.step);
    }
    if (ring >= 0) {
        close(ring);
    }
    return moved;
}

/* Whether a failed write can be for want of room. */
static bool is_nearly_full(int folder) {
    const uint64_t plenty = (uint64_t)64 << 20;
    struct statvfs disk;
    return fstatvfs(folder, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < plenty;
}

void td__ring_empty(const td_trainer *trainer) {
    if (!is_nearly_full(trainer->recording.opened)) {
        return;
    }
    int ring = openat(trainer->recording.opened, RING, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ring >= 0) {
        trim(ring, 0, trainer->at.step);
        close(ring);
    }
}

int64_t td__checkpoint_nearest(const char *run, int64_t step, char *path, size_t size) {
    static const char *const folders[] = {"checkpoints", RING, "branch"};
    int64_t found = 0;
    *path = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char folder[4300];
        (void)snprintf(folder, sizeof folder, "%s/%s", run, folders[i]);
        DIR *listing = opendir(folder);
        for (struct dirent *entry; listing && (entry = readdir(listing));) {
            if (td__is_checkpoint(entry->d_name)) {
                int64_t at = td__checkpoint_step(entry->d_name);
                if (at > found && at <= step) {
                    found = at;
                    (void)snprintf(path, size, "%s/%s", folder, entry->d_name);
                }
            }
        }
        if (listing) {
            closedir(listing);
        }
    }
    return found;
}
