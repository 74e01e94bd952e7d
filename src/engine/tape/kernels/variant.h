/* Names of the kernels in one variant: TD_VARIANT is set by the build (base/cpu.h). */
#ifndef TAPEDECK_TAPE_KERNELS_VARIANT_H
#define TAPEDECK_TAPE_KERNELS_VARIANT_H

#include "tape/kernels.h"

#define TD__PASTE_(a, b) a##_##b
#define TD__PASTE(a, b) TD__PASTE_(a, b)
/* td__fill_gemm -> td__fill_gemm_avx2 */
#define TD__VARIANT(name) TD__PASTE(name, TD_VARIANT)

#if defined(__AVX512F__)
#define TD__LANES 16
#define TD__TILE_ROWS 14
#elif defined(__AVX2__)
#define TD__LANES 8
#define TD__TILE_ROWS 6
#elif defined(__aarch64__)
#define TD__LANES 4
#define TD__TILE_ROWS 8
#else
#define TD__LANES 4
#define TD__TILE_ROWS 4
#endif

/* Each source of kernels/ fills its part of the table. */
void TD__VARIANT(td__fill_elementwise)(td__kernels_table *table);
void TD__VARIANT(td__fill_binary)(td__kernels_table *table);
void TD__VARIANT(td__fill_unary)(td__kernels_table *table);
void TD__VARIANT(td__fill_reduce)(td__kernels_table *table);
void TD__VARIANT(td__fill_dropout)(td__kernels_table *table);
void TD__VARIANT(td__fill_loss)(td__kernels_table *table);
void TD__VARIANT(td__fill_activation)(td__kernels_table *table);
void TD__VARIANT(td__fill_softmax)(td__kernels_table *table);
void TD__VARIANT(td__fill_gemm)(td__kernels_table *table);
void TD__VARIANT(td__fill_transpose)(td__kernels_table *table);
void TD__VARIANT(td__fill_taps)(td__kernels_table *table);
void TD__VARIANT(td__fill_winograd)(td__kernels_table *table);
void TD__VARIANT(td__fill_pool)(td__kernels_table *table);
void TD__VARIANT(td__fill_normalization)(td__kernels_table *table);
void TD__VARIANT(td__fill_attention)(td__kernels_table *table);
void TD__VARIANT(td__fill_recurrent)(td__kernels_table *table);
void TD__VARIANT(td__fill_optimizer)(td__kernels_table *table);

#endif
