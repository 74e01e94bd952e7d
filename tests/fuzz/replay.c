/* Runs a libFuzzer target over every file of a folder, or over files, without libFuzzer.
 *
 *   NAME FOLDER
 *   NAME --files FILE…     prints the path of each before it is read
 *
 * Each input is copied into a block of exactly its size, so that a read past the end is seen by
 * the address sanitizer. An empty or missing folder is a failure: such a test would check nothing.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    struct stat status;
    uint8_t *data = NULL;
    int result = -1;
    if (fstat(fileno(file), &status) == 0) {
        size_t size = (size_t)status.st_size;
        data = malloc(size ? size : 1);
        if (data && fread(data, 1, size, file) == size) {
            LLVMFuzzerTestOneInput(data, size);
            result = 0;
        }
    }
    if (result) {
        fprintf(stderr, "%s: cannot be read\n", path);
    }
    free(data);
    fclose(file);
    return result;
}

static int replay_files(int count, char **paths) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        printf("%s\n", paths[i]);
        (void)fflush(stdout);
        failed += replay(paths[i]) != 0;
    }
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "--files")) {
        return replay_files(argc - 2, argv + 2);
    }
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER (an existing one)\n", argv[0]);
        return 2;
    }
    int inputs = 0, failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        int length = snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        inputs++;
        failed += length < 0 || (size_t)length >= sizeof path || replay(path) != 0;
    }
    closedir(folder);
    printf("%d inputs replayed, %d could not be read\n", inputs, failed);
    return inputs == 0 || failed;
}
