/* Sums over all processes. Whatever the way, element i is ((v0 + v1) + (v2 + v3)) + …: the same bits as if one
 * process had added all of them in that tree.
 *
 *     halving   a power of two of processes, many values: in round k the partner is rank ^ 2^k, each keeps half of
 *               what it had and sends the other half; then the halves are exchanged back
 *     doubling  a power of two, few values: partners exchange everything. Two processes on two machines always: that
 *               is as many bytes in one round instead of two
 *     up, down  any number: to rank 0 along the tree, and from there to all
 */
#include "group/group.h"

#include <string.h>

enum { FEW = 1 << 14, MOST_ROUNDS = 31 }; /* FEW: bytes that are not worth a second message */

/* out = a + b, where out is a or b. */
static void add_floats(float *out, const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = a[i] + b[i];
    }
}

static void add_doubles(double *out, const double *a, const double *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = a[i] + b[i];
    }
}

/* values = values + other, or other + values where the other's ranks are lower. */
static void add(void *values, const void *other, bool other_first, size_t count, size_t element) {
    const void *a = other_first ? other : values, *b = other_first ? values : other;
    if (element == sizeof(float)) {
        add_floats(values, a, b, count);
    } else {
        add_doubles(values, a, b, count);
    }
}

static td_status by_doubling(td_group *group, td_group_request *r, void *scratch) {
    size_t bytes = r->count * r->element;
    for (int apart = 1; apart < group->size; apart *= 2) {
        int partner = group->rank ^ apart;
        if (!td__group_exchange(group, partner, r->data, bytes, partner, scratch, bytes)) {
            return TD_IO;
        }
        add(r->data, scratch, partner < group->rank, r->count, r->element);
    }
    return TD_OK;
}

static td_status by_halving(td_group *group, td_group_request *r, void *scratch) {
    size_t begins[MOST_ROUNDS], ends[MOST_ROUNDS], element = r->element;
    size_t begin = 0, end = r->count;
    char *data = r->data;
    int round = 0;
    for (int apart = 1; apart < group->size; apart *= 2) {
        bool upper = (group->rank & apart) != 0;
        size_t middle = begin + (end - begin) / 2;
        begins[round] = begin;
        ends[round++] = end;
        size_t out = upper ? begin : middle, out_count = upper ? middle - begin : end - middle;
        begin = upper ? middle : begin;
        end = upper ? end : middle;
        if (!td__group_exchange(group, group->rank ^ apart, data + out * element,
                                out_count * element, group->rank ^ apart, scratch,
                                (end - begin) * element)) {
            return TD_IO;
        }
        add(data + begin * element, scratch, upper, end - begin, element);
    }
    for (int apart = group->size / 2; apart > 0; apart /= 2) {
        round--;
        bool upper = (group->rank & apart) != 0;
        size_t in = upper ? begins[round] : end, in_end = upper ? begin : ends[round];
        if (!td__group_exchange(group, group->rank ^ apart, data + begin * element,
                                (end - begin) * element, group->rank ^ apart, data + in * element,
                                (in_end - in) * element)) {
            return TD_IO;
        }
        begin = begins[round];
        end = ends[round];
    }
    return TD_OK;
}

td_status td__group_spread(td_group *group, td_group_request *r) {
    size_t bytes = r->count * r->element;
    int size = r->members ? r->member_count : group->size, at = 0, top = 1;
    if (r->members) {
        while (r->members[at] != group->rank) {
            at++;
        }
    } else {
        at = (group->rank - r->root + size) % size;
    }
    while (top < size) {
        top *= 2;
    }
    for (int apart = top / 2; apart > 0; apart /= 2) {
        bool sends = at % (2 * apart) == 0 && at + apart < size;
        bool receives = at % (2 * apart) == apart;
        int other = sends ? at + apart : at - apart;
        int partner = !sends && !receives ? 0
                      : r->members        ? r->members[other]
                                          : (other + r->root) % size;
        if ((sends && !td__group_exchange(group, partner, r->data, bytes, 0, NULL, 0)) ||
            (receives && !td__group_exchange(group, 0, NULL, 0, partner, r->data, bytes))) {
            return TD_IO;
        }
    }
    return TD_OK;
}

static td_status up_and_down(td_group *group, td_group_request *r, void *scratch) {
    size_t bytes = r->count * r->element;
    for (int apart = 1; apart < group->size && group->rank % apart == 0; apart *= 2) {
        bool sends = group->rank % (2 * apart) == apart;
        int partner = sends ? group->rank - apart : group->rank + apart;
        if (partner >= group->size) {
            continue;
        }
        if (!td__group_exchange(group, partner, r->data, sends ? bytes : 0, partner, scratch,
                                sends ? 0 : bytes)) {
            return TD_IO;
        }
        if (!sends) {
            add(r->data, scratch, false, r->count, r->element);
        }
    }
    r->root = 0;
    return td__group_spread(group, r);
}

td_status td__group_sum(td_group *group, td_group_request *r) {
    size_t bytes = r->count * r->element;
    void *scratch = td__group_scratch(group, bytes);
    if (!scratch) {
        return TD_MEMORY;
    }
    if (group->size & (group->size - 1)) {
        return up_and_down(group, r, scratch);
    }
    bool few = bytes <= FEW || r->count < (size_t)group->size;
    bool far_pair = group->size == 2 && strcmp(group->hosts[0], group->hosts[1]) != 0;
    return few || far_pair ? by_doubling(group, r, scratch) : by_halving(group, r, scratch);
}
