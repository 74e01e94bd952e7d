/* Initial values of parameters, as Keras draws them (not the same numbers).
 *
 * fan_in and fan_out: of (n) n and n; of (…, in, out) in and out, times the sizes before them. The
 * scaled initialisers have variance scale / fan, with scale 1 (glorot over the mean of both fans,
 * lecun over fan_in) or 2 (he over fan_in).
 */
#include "base/memory.h"
#include "base/random.h"
#include "nn/layer.h"
#include "tape/kernels.h"

#include <math.h>

/* Deviation of a normal distribution that is cut at two deviations. */
#define CUT_DEVIATION 0.87962566103423978
#define PLAIN_SPREAD 0.05

/* FNV-1a: parameters get streams of their own, whatever other parameters there are. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return hash;
}

static void fans(const td_shape *shape, double *in, double *out) {
    double field = 1;
    for (int32_t i = 0; i < shape->rank - 2; i++) {
        field *= (double)shape->dims[i];
    }
    *out = shape->rank ? field * (double)shape->dims[shape->rank - 1] : 1;
    *in = shape->rank > 1 ? field * (double)shape->dims[shape->rank - 2] : *out;
}

static void fill(td_tensor *tensor, float value) {
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = value;
    }
}

static void fill_uniform(td_tensor *tensor, td__random *random, double limit) {
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = (float)((2 * td__random_uniform(random) - 1) * limit);
    }
}

static void fill_normal(td_tensor *tensor, td__random *random, double deviation, bool cut) {
    for (int64_t i = 0; i < tensor->count; i++) {
        double z;
        do {
            z = td__random_normal(random);
        } while (cut && fabs(z) > 2);
        td__floats(tensor)[i] = (float)(z * deviation);
    }
}

/* Makes the rows of q (count, length), count <= length, orthonormal: Gram-Schmidt, each row against
 * those before it, twice, which is as good as it gets in floating point. */
static void orthonormalize(float *q, int64_t count, int64_t length) {
    const td__kernels_table *kernels = td__kernels();
    for (int64_t i = 0; i < count; i++) {
        float *row = q + i * length;
        for (int64_t k = 0; k < 2 * i; k++) {
            const float *other = q + k % i * length;
            kernels->axpy(length, -kernels->dot(length, row, other), other, row);
        }
        float norm = sqrtf(kernels->dot(length, row, row));
        kernels->affine(length, norm > 0 ? 1 / norm : 0, row, 0, row);
    }
}

/* (…, out) seen as a matrix with orthonormal columns, or rows when it is wider than high. */
static td_status fill_orthogonal(td_tensor *tensor, td__random *random, td_error *error) {
    int64_t columns = tensor->shape.rank ? tensor->shape.dims[tensor->shape.rank - 1] : 1;
    int64_t rows = columns ? tensor->count / columns : 0;
    fill_normal(tensor, random, 1, false);
    if (rows <= columns) {
        orthonormalize(td__floats(tensor), rows, columns);
        return TD_OK;
    }
    float *q = td__aligned_alloc((size_t)tensor->count * sizeof *q); /* (columns, rows) */
    if (!q) {
        return td_error_set(error, TD_MEMORY, "out of memory for the initial values of '%s'",
                            tensor->name);
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        q[i % columns * rows + i / columns] = td__floats(tensor)[i];
    }
    orthonormalize(q, columns, rows);
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = q[i % columns * rows + i / columns];
    }
    td__aligned_free(q);
    return TD_OK;
}

td_status td__initialize(td_tensor *tensor, td_initializer initializer, uint64_t seed,
                         td_error *error) {
    td__random random;
    td__random_seed(&random, seed, hash_name(tensor->name));
    double in, out;
    fans(&tensor->shape, &in, &out);
    double glorot = sqrt(2 / fmax(1, in + out)), lecun = sqrt(1 / fmax(1, in));
    double he = lecun * sqrt(2), uniform = sqrt(3), normal = 1 / CUT_DEVIATION;
    switch (initializer) {
    case TD_GLOROT_UNIFORM:
        fill_uniform(tensor, &random, glorot * uniform);
        break;
    case TD_GLOROT_NORMAL:
        fill_normal(tensor, &random, glorot * normal, true);
        break;
    case TD_HE_UNIFORM:
        fill_uniform(tensor, &random, he * uniform);
        break;
    case TD_HE_NORMAL:
        fill_normal(tensor, &random, he * normal, true);
        break;
    case TD_LECUN_UNIFORM:
        fill_uniform(tensor, &random, lecun * uniform);
        break;
    case TD_LECUN_NORMAL:
        fill_normal(tensor, &random, lecun * normal, true);
        break;
    case TD_ORTHOGONAL:
        return fill_orthogonal(tensor, &random, error);
    case TD_ONES:
        fill(tensor, 1);
        break;
    case TD_RANDOM_UNIFORM:
        fill_uniform(tensor, &random, PLAIN_SPREAD);
        break;
    case TD_RANDOM_NORMAL:
        fill_normal(tensor, &random, PLAIN_SPREAD, false);
        break;
    case TD_TRUNCATED_NORMAL:
        fill_normal(tensor, &random, PLAIN_SPREAD, true);
        break;
    default:
        fill(tensor, 0);
        break;
    }
    return TD_OK;
}
