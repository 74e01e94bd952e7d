#include "answers/token.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static td_status make_token(char token[TD__TOKEN_SIZE], td_error *error) {
    uint8_t bytes[(TD__TOKEN_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return td_error_set(error, TD_IO, "no random numbers for a token: %s", strerror(errno));
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        (void)snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    }
    return TD_OK;
}

static td_status read_token(int file, const char *path, char token[TD__TOKEN_SIZE],
                            td_error *error) {
    struct stat about;
    memset(token, 0, TD__TOKEN_SIZE);
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        about.st_mode & (S_IRWXG | S_IRWXO)) {
        return td_error_set(error, TD_INVALID,
                            "%s: a token's file is yours, and nobody else may read it (chmod 600)",
                            path);
    }
    if (!td__read_all(file, token, TD__TOKEN_SIZE - 1, 0) ||
        strspn(token, "0123456789abcdef") != TD__TOKEN_SIZE - 1) {
        return td_error_set(error, TD_FORMAT, "%s: no token, which is %d hexadecimal digits", path,
                            TD__TOKEN_SIZE - 1);
    }
    return TD_OK;
}

td_status td__token_find(const char *path, char token[TD__TOKEN_SIZE], td_error *error) {
    td_status status = make_token(token, error);
    if (status || !path) {
        return status;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0) {
        bool written = write(file, token, TD__TOKEN_SIZE - 1) == TD__TOKEN_SIZE - 1;
        return close(file) == 0 && written
                   ? TD_OK
                   : td_error_set(error, TD_IO, "%s: cannot be written", path);
    }
    file = errno == EEXIST ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (file < 0) {
        return td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
    }
    status = read_token(file, path, token, error);
    close(file);
    return status;
}
