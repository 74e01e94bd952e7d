/* Options, shapes and lists written where they are used, in C17 and in C++17.
 *
 *     td_deck_track(deck, .what = "loss", .every = 10);
 *
 * In C they last as long as the block they are written in, in C++ as long as the expression: pass
 * them to a function, do not keep their address. C++ wants fields in the order in which they are
 * declared, and before C++20 compilers that pedantically warn of every extension warn of `.field =`;
 * what needs neither is td_options:
 *
 *     auto track = td_options<td_track>();
 *     track.what = "loss";
 *     td_deck_track_with(deck, &track, nullptr);
 */
#ifndef TAPEDECK_LITERAL_H
#define TAPEDECK_LITERAL_H

/* A number that can be left out: a field whose default is not 0, or that has none.
 *
 *     td_add_batch_normalization(model, .momentum = TD_SET(momentum));
 *
 * Left out (TD_DEFAULT, all bytes zero) it is the default; TD_SET(x) is x, also where x is 0. A plain
 * number in its place does not compile, so a computed zero is never taken for the default. */
struct td__set;
typedef struct td_number {
    const struct td__set *set; /* NULL: left out */
    double value;
} td_number;

#ifndef __cplusplus

#define TD_SET(number) ((td_number){(const struct td__set *)"", (number)})
#define TD_DEFAULT ((td_number){NULL, 0})

/* A pointer to a struct whose first field, size, is filled in. */
#define TD_OPTIONS(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
/* A struct of a pointer to items and their number. */
#define TD_LIST(type, item, ...)                                                                   \
    ((type){(item const[]){__VA_ARGS__}, sizeof((item const[]){__VA_ARGS__}) / sizeof(item)})

#else

/* Fields that are left out are zero on purpose, which g++ would warn of wherever one is used. */
#pragma GCC system_header
#include <cstddef>
#include <cstdint>
#include <initializer_list>

inline td_number TD_SET(double number) {
    return td_number{reinterpret_cast<const td__set *>(""), number};
}
#define TD_DEFAULT (td_number{nullptr, 0})

/* Options that are all default; their first field, the size, is filled in. */
template <class options> inline options td_options() {
    return options{sizeof(options)};
}

template <class type> inline const type *td__borrow(const type &temporary) {
    return &temporary;
}
template <class list, class item> inline list td__list(std::initializer_list<item> items) {
    return list{items.begin(), items.size()};
}

#define TD_OPTIONS(type, ...) td__borrow(type{.size = sizeof(type), __VA_ARGS__})
#define TD_LIST(type, item, ...) td__list<type, item>({__VA_ARGS__})

#endif
#endif
