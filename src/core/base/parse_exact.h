/* The C++ library's exact number parser, for C. */
#ifndef TAPEDECK_BASE_PARSE_EXACT_H
#define TAPEDECK_BASE_PARSE_EXACT_H

#ifdef __cplusplus
extern "C" {
#endif

/* The float nearest to the decimal number that is all of [from, end); ±infinity or ±0 when it is
 * out of range. */
float td__exact_float32(const char *from, const char *end);
double td__exact_float64(const char *from, const char *end);

#ifdef __cplusplus
}
#endif
#endif
