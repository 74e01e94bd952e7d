/* CRC-32C (Castagnoli), as TensorBoard's event files use it. */
#ifndef TAPEDECK_BASE_CRC32C_H
#define TAPEDECK_BASE_CRC32C_H

#include "tapedeck/base.h"

/* Extends crc (0 to begin with) by size bytes. Uses SSE4.2 where the processor has it. */
uint32_t td__crc32c(uint32_t crc, const void *data, size_t size);
/* The same without special instructions: what runs elsewhere, and what tests compare with. */
uint32_t td__crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
