/* Tar archives that grow: what a program adds stands behind what is there already, and nothing is ever rewritten. tar(1),
 * file managers and Python's tarfile open them; the two empty blocks at an archive's end are left out, which they all
 * accept. */
#ifndef TAPEDECK_BASE_TAR_H
#define TAPEDECK_BASE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD__TAR_BLOCK = 512, TD__TAR_NAME = 100, TD__TAR_COMMENT = 2 * TD__TAR_BLOCK };

/* The block before a file's bytes, in the ustar format; size below 8 GiB, name shorter than TD__TAR_NAME. After the
 * bytes come zeros up to the next whole block. */
void td__tar_header(char out[TD__TAR_BLOCK], const char *name, int64_t size);
/* What an archive begins with: a comment that programs skip, of less than 480 bytes. */
void td__tar_comment(char out[TD__TAR_COMMENT], const char *text);
/* The file that a block begins; false when it begins none, or is damaged. */
bool td__tar_parse(const char block[TD__TAR_BLOCK], char name[TD__TAR_NAME], int64_t *size);
/* Bytes that a file of this size takes, its header and the zeros included. */
int64_t td__tar_space(int64_t size);

#endif
