/* Bytes as text: RFC 4648, with padding. */
#ifndef TAPEDECK_BASE_BASE64_H
#define TAPEDECK_BASE_BASE64_H

#include "tapedeck/base.h"

/* From td__calloc; NULL when memory is exhausted. */
char *td__base64_encode(const void *bytes, size_t size);
/* From td__calloc; NULL when memory is exhausted or text is not what the function above makes. */
void *td__base64_decode(const char *text, size_t *size);

#endif
