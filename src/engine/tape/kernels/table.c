/* Puts one variant's table together. */
#include "tape/kernels/variant.h"

void TD__VARIANT(td__fill_kernels)(td__kernels_table *table);

void TD__VARIANT(td__fill_kernels)(td__kernels_table *table) {
    TD__VARIANT(td__fill_elementwise)(table);
    TD__VARIANT(td__fill_binary)(table);
    TD__VARIANT(td__fill_unary)(table);
    TD__VARIANT(td__fill_reduce)(table);
    TD__VARIANT(td__fill_dropout)(table);
    TD__VARIANT(td__fill_loss)(table);
    TD__VARIANT(td__fill_activation)(table);
    TD__VARIANT(td__fill_softmax)(table);
    TD__VARIANT(td__fill_gemm)(table);
    TD__VARIANT(td__fill_transpose)(table);
    TD__VARIANT(td__fill_taps)(table);
    TD__VARIANT(td__fill_winograd)(table);
    TD__VARIANT(td__fill_pool)(table);
    TD__VARIANT(td__fill_normalization)(table);
    TD__VARIANT(td__fill_attention)(table);
    TD__VARIANT(td__fill_recurrent)(table);
    TD__VARIANT(td__fill_optimizer)(table);
}
