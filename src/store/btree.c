#include "store/btree.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INTERIOR_INDEX = 2,
    INTERIOR_TABLE = 5,
    LEAF_INDEX = 10,
    LEAF_TABLE = 13,
    FILE_HEADER = 100,
    LONGEST_ROW = 8 << 20
};

/* ---- The file ------------------------------------------------------------------------------- */

static uint32_t u16(const uint8_t *at) {
    return (uint32_t)at[0] << 8 | at[1];
}
static uint32_t u32(const uint8_t *at) {
    return u16(at) << 16 | u16(at + 2);
}

static bool read_head(td__btree_file *file) {
    enum { UTF_8 = 1 };
    uint8_t head[FILE_HEADER];
    struct stat about;
    if (fstat(file->file, &about) != 0 || !td__read_all(file->file, head, sizeof head, 0) ||
        memcmp(head, "SQLite format 3", 16) != 0) {
        return false;
    }
    uint32_t size = u16(head + 16) == 1 ? 65536 : u16(head + 16);
    if (size < 512 || (size & (size - 1)) || size - head[20] < 480 || about.st_size % size != 0 ||
        about.st_size / size > UINT32_MAX || u32(head + 56) != UTF_8) {
        return false;
    }
    file->page_size = size;
    file->usable = size - head[20];
    file->pages = (uint32_t)(about.st_size / size);
    file->user_version = u32(head + 60);
    /* The header's own count, which is valid when the change counter agrees. */
    return u32(head + 24) == u32(head + 92) && u32(head + 28) == file->pages;
}

bool td__btree_open(td__btree_file *file, const char *path) {
    *file = (td__btree_file){.file = td__file_open(AT_FDCWD, path, O_RDONLY)};
    if (file->file >= 0 && read_head(file)) {
        return true;
    }
    td__btree_close(file);
    return false;
}

void td__btree_close(td__btree_file *file) {
    if (file->file >= 0) {
        close(file->file);
    }
    file->file = -1;
}

static bool read_page(const td__btree_file *file, uint32_t number, uint8_t *page) {
    return number >= 1 && number <= file->pages &&
           td__read_all(file->file, page, file->page_size,
                        (off_t)(number - 1) * (off_t)file->page_size);
}

/* Up to nine bytes, seven bits each but for the last; how many, or 0 when they go past the end. */
static size_t varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; at + i < end && i < 9; i++) {
        *value = i == 8 ? *value << 8 | at[i] : *value << 7 | (at[i] & 0x7F);
        if (i == 8 || at[i] < 0x80) {
            return i + 1;
        }
    }
    return 0;
}

/* ---- Pages ---------------------------------------------------------------------------------- */

static bool is_leaf(const td__btree_level *level) {
    return level->type == LEAF_TABLE || level->type == LEAF_INDEX;
}

static bool descend(td__btree_cursor *cursor, uint32_t number) {
    if (cursor->depth == TD__BTREE_DEPTH || cursor->budget == 0) {
        return false;
    }
    cursor->budget--;
    td__btree_level *level = &cursor->levels[cursor->depth];
    uint32_t start = number == 1 ? FILE_HEADER : 0, size = cursor->file->page_size;
    level->page = level->page ? level->page : td__calloc(size, 1);
    if (!level->page || !read_page(cursor->file, number, level->page)) {
        return false;
    }
    level->start = start;
    level->type = level->page[start];
    level->cells = u16(level->page + start + 3);
    level->at = 0;
    bool known = level->type == INTERIOR_INDEX || level->type == INTERIOR_TABLE || is_leaf(level);
    /* A tree's pages are of one kind: of tables, or of keys. */
    bool alike =
        cursor->depth == 0 || (cursor->levels[0].type > 4 && cursor->levels[0].type != 10) ==
                                  (level->type == INTERIOR_TABLE || level->type == LEAF_TABLE);
    cursor->depth++;
    return known && alike && start + 12 + 2 * level->cells <= cursor->file->usable;
}

/* Where cell i begins; NULL when that is not on the page. */
static const uint8_t *cell_at(const td__btree_cursor *cursor, const td__btree_level *level,
                              uint32_t i) {
    uint32_t pointers = level->start + (is_leaf(level) ? 8 : 12);
    uint32_t at = u16(level->page + pointers + 2 * i);
    bool inside = at >= pointers + 2 * level->cells && at + 4 <= cursor->file->usable;
    return inside ? level->page + at : NULL;
}

/* The page below, left of cell i, or right of all. */
static bool descend_to(td__btree_cursor *cursor, const td__btree_level *level, uint32_t i) {
    const uint8_t *cell =
        i < level->cells ? cell_at(cursor, level, i) : level->page + level->start + 8;
    return cell && descend(cursor, u32(cell));
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* So many bytes of a payload are on its page; the others are in a chain of pages. */
static uint64_t local_bytes(const td__btree_file *file, bool table, uint64_t size) {
    uint64_t u = file->usable, most = table ? u - 35 : (u - 12) * 64 / 255 - 23;
    uint64_t least = (u - 12) * 32 / 255 - 23;
    if (size <= most) {
        return size;
    }
    uint64_t kept = least + (size - least) % (u - 4);
    return kept <= most ? kept : least;
}

static bool gather(td__btree_cursor *cursor, const uint8_t *from, const uint8_t *end, bool table,
                   uint64_t size) {
    const td__btree_file *file = cursor->file;
    uint64_t have = local_bytes(file, table, size);
    size_t room = (size_t)size + file->page_size;
    if (size > LONGEST_ROW || (uint64_t)(end - from) < have + (have < size ? 4 : 0) ||
        !td__grow(&cursor->payload, &cursor->payload_capacity, room, SIZE_MAX, 1)) {
        return false;
    }
    memcpy(cursor->payload, from, have);
    uint32_t next = have < size ? u32(from + have) : 0;
    while (have < size) { /* a page: the number of the next one, then bytes */
        uint8_t link[4];
        uint64_t part = size - have < file->usable - 4 ? size - have : file->usable - 4;
        off_t place = (off_t)(next - 1) * (off_t)file->page_size;
        if (next < 1 || next > file->pages || !td__read_all(file->file, link, 4, place) ||
            !td__read_all(file->file, cursor->payload + have, part, place + 4)) {
            return false;
        }
        have += part;
        next = u32(link);
    }
    return true;
}

/* The value of a serial type; its bytes are at `at`. False for a type that there is not. */
static bool take_value(td__value *value, uint64_t type, const uint8_t *at) {
    static const uint8_t widths[] = {0, 1, 2, 3, 4, 6, 8};
    *value = (td__value){.type = TD__VALUE_NULL};
    if (type >= 12) {
        *value = (td__value){.type = type % 2 ? TD__VALUE_TEXT : TD__VALUE_BLOB,
                             .bytes = (const char *)at,
                             .size = (size_t)((type - 12) / 2)};
    } else if (type == 7) {
        uint64_t bits = (uint64_t)u32(at) << 32 | u32(at + 4);
        value->type = TD__VALUE_REAL;
        memcpy(&value->real, &bits, sizeof bits);
    } else if (type >= 1 && type <= 9) {
        uint64_t bits = type >= 8 ? type - 8 : at[0] & 0x80 ? UINT64_MAX : 0;
        for (int i = 0; type < 7 && i < widths[type]; i++) {
            bits = bits << 8 | at[i];
        }
        value->type = TD__VALUE_INTEGER;
        value->integer = (int64_t)bits;
        value->real = (double)value->integer;
    }
    return type < 10 || type >= 12;
}

static uint64_t value_bytes(uint64_t type) {
    static const uint8_t widths[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return type >= 12 ? (type - 12) / 2 : widths[type];
}

/* Texts, with a 0 behind each. */
static bool copy_texts(td__btree_cursor *cursor) {
    size_t needed = 0;
    for (int i = 0; i < cursor->count; i++) {
        needed += cursor->values[i].size + 1;
    }
    if (!td__grow(&cursor->texts, &cursor->texts_capacity, needed, SIZE_MAX, 1)) {
        return false;
    }
    char *to = cursor->texts;
    for (int i = 0; i < cursor->count; i++) {
        td__value *value = &cursor->values[i];
        if (value->type == TD__VALUE_TEXT) {
            memcpy(to, value->bytes, value->size);
            to[value->size] = 0;
            value->bytes = to;
            to += value->size + 1;
        }
    }
    return true;
}

/* A record: the size of its header, a type for each value, the values. */
static bool take_record(td__btree_cursor *cursor, uint64_t size) {
    const uint8_t *start = cursor->payload, *end = start + size;
    uint64_t header;
    size_t used = varint(start, end, &header);
    if (used == 0 || header < used || header > size) {
        return false;
    }
    const uint8_t *types = start + used, *at = start + header;
    cursor->count = 0;
    while (types < start + header && cursor->count < TD__BTREE_COLUMNS) {
        uint64_t type;
        used = varint(types, start + header, &type);
        if (used == 0 || value_bytes(type) > (uint64_t)(end - at) ||
            !take_value(&cursor->values[cursor->count], type, at)) {
            return false;
        }
        types += used;
        at += value_bytes(type);
        cursor->count++;
    }
    return copy_texts(cursor);
}

static int take_row(td__btree_cursor *cursor, const td__btree_level *level, uint32_t i) {
    const uint8_t *at = cell_at(cursor, level, i), *end = level->page + cursor->file->usable;
    bool table = level->type == LEAF_TABLE;
    uint64_t size, rowid = 0;
    size_t used = 0;
    if (at) {
        at += level->type == INTERIOR_INDEX ? 4 : 0;
        used = varint(at, end, &size);
    }
    if (used == 0) {
        return -1;
    }
    at += used;
    used = table ? varint(at, end, &rowid) : 0;
    if ((table && used == 0) || !gather(cursor, at + used, end, table, size) ||
        !take_record(cursor, size)) {
        return -1;
    }
    cursor->rowid = (int64_t)rowid;
    return 1;
}

/* ---- Going through -------------------------------------------------------------------------- */

void td__btree_release(td__btree_cursor *cursor) {
    for (int i = 0; i < TD__BTREE_DEPTH; i++) {
        td__free(cursor->levels[i].page);
    }
    td__free(cursor->payload);
    td__free(cursor->texts);
    *cursor = (td__btree_cursor){0};
}

bool td__btree_begin(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root) {
    cursor->file = file;
    cursor->depth = 0;
    cursor->budget = (uint64_t)file->pages + TD__BTREE_DEPTH;
    return descend(cursor, root);
}

int td__btree_next(td__btree_cursor *cursor) {
    while (cursor->depth > 0) {
        td__btree_level *level = &cursor->levels[cursor->depth - 1];
        uint32_t i = level->at / 2;
        if (is_leaf(level)) {
            level->at += 2;
            if (i < level->cells) {
                return take_row(cursor, level, i);
            }
            cursor->depth--;
        } else if (level->at % 2 == 0) {
            level->at++;
            if (!descend_to(cursor, level, i)) {
                return -1;
            }
        } else if (i < level->cells) {
            level->at++;
            if (level->type == INTERIOR_INDEX) {
                return take_row(cursor, level, i);
            }
        } else {
            cursor->depth--;
        }
    }
    return 0;
}

int td__btree_last(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root) {
    bool good = td__btree_begin(cursor, file, root);
    td__btree_level *level = cursor->levels;
    while (good && level->type == INTERIOR_TABLE) {
        good = descend_to(cursor, level, level->cells);
        level = &cursor->levels[cursor->depth - 1];
    }
    if (!good || level->type != LEAF_TABLE) {
        return -1;
    }
    return level->cells ? take_row(cursor, level, level->cells - 1) : 0;
}

/* The first cell of the page whose rowid is not less; -1 when the page makes no sense. */
static int64_t first_not_less(const td__btree_cursor *cursor, const td__btree_level *level,
                              int64_t rowid, bool *equal) {
    uint32_t low = 0, high = level->cells;
    *equal = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const uint8_t *at = cell_at(cursor, level, middle);
        const uint8_t *end = level->page + cursor->file->usable;
        uint64_t size, key;
        if (!at) {
            return -1;
        }
        at += level->type == INTERIOR_TABLE ? 4 : varint(at, end, &size);
        if (varint(at, end, &key) == 0) {
            return -1;
        }
        *equal = *equal || (int64_t)key == rowid;
        if ((int64_t)key < rowid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int td__btree_find(td__btree_cursor *cursor, const td__btree_file *file, uint32_t root,
                   int64_t rowid) {
    bool good = td__btree_begin(cursor, file, root), equal = false;
    while (good) {
        td__btree_level *level = &cursor->levels[cursor->depth - 1];
        if (level->type != INTERIOR_TABLE && level->type != LEAF_TABLE) {
            return -1;
        }
        int64_t i = first_not_less(cursor, level, rowid, &equal);
        if (i >= 0 && level->type == LEAF_TABLE) {
            return equal ? take_row(cursor, level, (uint32_t)i) : 0;
        }
        good = i >= 0 && descend_to(cursor, level, (uint32_t)i);
    }
    return -1;
}
