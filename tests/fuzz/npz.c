/* NPZ, through a file that exists in memory only. */
#include "array.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size) {
        abort();
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    td_data_options options = {.memory = 1 << 20};
    td__table table = {0};
    td_error error = {0};
    td__input *input = NULL;
    if (td__input_open(&input, path,
                       &error)) { /* an archive without arrays is unpacked as it is opened */
        close(file);
        return error.status ? 0 : (abort(), 0);
    }
    td__request request = {.path = path, .input = input, .options = &options};
    td_status status = td__npz_read(&table, &request, &error);
    if (status != error.status) {
        abort();
    }
    if (!status) {
        read_all(&table.input, table.rows);
        if (table.label.data) {
            read_all(&table.label, table.rows);
        }
    }
    td__table_release(&table);
    td__input_close(input);
    close(file);
    return 0;
}
