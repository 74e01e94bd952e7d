#include "data/date.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* ---- The calendar ---------------------------------------------------------------------------- */

/* Days since 1970-01-01 in the Gregorian calendar: years begin in March, so that a leap day is the last. */
static int64_t count_days(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, in_era = year - era * 400;
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static void find_day(td__date *date, int64_t days) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, in_era = days - era * 146097;
    int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100),
            month = (5 * in_year + 2) / 153;
    date->day = (int)(in_year - (153 * month + 2) / 5 + 1);
    date->month = (int)(month < 10 ? month + 3 : month - 9);
    date->year = year + era * 400 + (date->month <= 2);
}

static bool is_leap(int64_t year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool is_day(int64_t year, int month, int day) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && is_leap(year));
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Digits at *at as a number; how many there were, 0 for more than 9. */
static int read_digits(const char **at, int64_t *value) {
    int count = 0;
    *value = 0;
    for (; isdigit((unsigned char)**at); ++*at) {
        *value = ++count > 9 ? 0 : *value * 10 + (**at - '0');
    }
    return count > 9 ? 0 : count;
}

/* An English month's name, or its first letters; 0 for none. */
static int read_month(const char **at) {
    static const char *const names[] = {"january",   "february", "march",    "april",
                                        "may",       "june",     "july",     "august",
                                        "september", "october",  "november", "december"};
    size_t length = 0;
    while (isalpha((unsigned char)(*at)[length])) {
        length++;
    }
    for (int i = 0; length >= 3 && i < 12; i++) {
        bool sept = i == 8 && length == 4;
        if (strncasecmp(*at, names[i], length) == 0 && (length == 3 || sept || !names[i][length])) {
            *at += length + ((*at)[length] == '.');
            return i + 1;
        }
    }
    return 0;
}

static bool read_two(const char **at, int *value) {
    int64_t number;
    bool good = read_digits(at, &number) == 2;
    *value = (int)number;
    return good;
}

/* Z, UTC, +02:00, +0200 or +02. */
static bool read_offset(td__date *date, const char **at) {
    bool utc = strncasecmp(*at, "utc", 3) == 0, z = **at == 'Z' || **at == 'z';
    date->has_offset = utc || z || **at == '+' || **at == '-';
    if (utc || z) {
        *at += utc ? 3 : 1;
        return true;
    }
    if (!date->has_offset) {
        return true;
    }
    int sign = *(*at)++ == '-' ? -1 : 1;
    int64_t number, minutes = 0;
    int digits = read_digits(at, &number);
    if (digits == 2 && **at == ':') {
        ++*at;
        if (read_digits(at, &minutes) != 2) {
            return false;
        }
    } else if (digits == 4) {
        minutes = number % 100;
        number /= 100;
    } else if (digits != 2) {
        return false;
    }
    date->offset = sign * (int)(number * 60 + minutes);
    return number <= 15 && minutes < 60;
}

/* 10:30, 10:30:15.25, 103015, 9:05 pm. */
static bool read_time(td__date *date, const char **at) {
    int64_t hour, number;
    int digits = read_digits(at, &hour);
    date->has_time = true;
    if (**at != ':' && (digits == 4 || digits == 6)) { /* of ISO 8601 without marks */
        date->second = digits == 6 ? (double)(hour % 100) : 0;
        hour = digits == 6 ? hour / 100 : hour;
        date->minute = (int)(hour % 100);
        hour /= 100;
    } else {
        if (digits < 1 || digits > 2 || *(*at)++ != ':' || !read_two(at, &date->minute)) {
            return false;
        }
        if (**at == ':') {
            ++*at;
            if (read_digits(at, &number) != 2) {
                return false;
            }
            date->second = (double)number;
        }
    }
    if ((**at == '.' || **at == ',') && isdigit((unsigned char)(*at)[1])) {
        double place = 0.1;
        for (++*at; isdigit((unsigned char)**at); ++*at, place /= 10) {
            date->second += (**at - '0') * place;
        }
    }
    const char *half = *at + strspn(*at, " ");
    bool am = strncasecmp(half, "am", 2) == 0, pm = strncasecmp(half, "pm", 2) == 0;
    if (am || pm) {
        *at = half + 2;
        if (hour < 1 || hour > 12) {
            return false;
        }
        hour = hour % 12 + (pm ? 12 : 0);
    }
    date->hour = (int)hour;
    *at += strspn(*at, " ");
    return hour <= 23 && date->minute <= 59 && date->second < 60 && read_offset(date, at);
}

/* 2024-05-01, 2024/05/01, 2024-05, 20240501; then the year is known. */
static bool read_year_first(td__date *date, const char **at, int digits, int64_t number) {
    if (digits == 8) {
        date->year = number / 10000;
        date->month = (int)(number / 100 % 100);
        date->day = (int)(number % 100);
        return true;
    }
    int64_t month, day = 1;
    char mark = **at;
    if (digits != 4 || !mark || !strchr("-/.", mark)) {
        return false;
    }
    ++*at;
    int in_month = read_digits(at, &month);
    if (**at == mark) {
        ++*at;
        int in_day = read_digits(at, &day);
        if (in_day < 1 || in_day > 2) {
            return false;
        }
    }
    date->year = number;
    date->month = (int)month;
    date->day = (int)day;
    return in_month >= 1 && in_month <= 2;
}

/* 1.5.2024, 1/5/2024, 1 May 2024, 1-May-2024: the year is last. */
static bool read_year_last(td__date *date, const char **at, int64_t first) {
    char mark = **at;
    if (!mark || !strchr(" -/.", mark)) {
        return false;
    }
    ++*at;
    *at += strspn(*at, " ");
    int64_t second = read_month(at), year;
    bool named = second > 0;
    if (!named) {
        int digits = read_digits(at, &second);
        if (digits < 1 || digits > 2) {
            return false;
        }
    }
    if (**at != mark && !(named && (**at == ' ' || **at == ','))) {
        return false;
    }
    *at += strspn(*at, named ? " ,-/." : (char[]){mark, 0});
    if (read_digits(at, &year) != 4) {
        return false;
    }
    date->year = year;
    date->day = (int)first;
    date->month = (int)second;
    date->open = !named && mark != '.'; /* day.month.year is the only order of that kind */
    return named || mark != ' ';
}

/* May 1, 2024 */
static bool read_month_first(td__date *date, const char **at) {
    int64_t day, year;
    date->month = read_month(at);
    *at += strspn(*at, " ");
    int digits = date->month ? read_digits(at, &day) : 0;
    if (digits < 1 || digits > 2) {
        return false;
    }
    *at += strspn(*at, " ,");
    date->day = (int)day;
    digits = read_digits(at, &year);
    date->year = year;
    return digits == 4;
}

bool td__date_read(td__date *date, const char *text) {
    const char *at = text + strspn(text, " ");
    int64_t number;
    *date = (td__date){0};
    int digits = read_digits(&at, &number);
    bool good = digits == 0                  ? *text && read_month_first(date, &at)
                : digits == 4 || digits == 8 ? read_year_first(date, &at, digits, number)
                                             : digits <= 2 && read_year_last(date, &at, number);
    if (good && (*at == 'T' || *at == 't' || *at == ' ' || *at == ',')) {
        at += *at == ',';
        at += *at == 'T' || *at == 't' ? 1 : strspn(at, " ");
        good = !*at || read_time(date, &at);
    }
    at += strspn(at, " ");
    return good && !*at &&
           (date->open ? date->day >= 1 && date->month >= 1 && date->day <= 31 &&
                             date->month <= 31 && date->year >= 1
                       : is_day(date->year, date->month, date->day));
}

double td__date_seconds(const td__date *date) {
    int64_t days = count_days(date->year, date->month, date->day);
    return (double)(days * 86400 + date->hour * 3600 + date->minute * 60) + date->second;
}

bool td__date_settle(td__date *date, td_date_order order) {
    if (date->open && order == TD_DATE_MONTH_FIRST) {
        int day = date->month;
        date->month = date->day;
        date->day = day;
    }
    date->open = false;
    if (!is_day(date->year, date->month, date->day)) {
        return false;
    }
    int64_t minutes = count_days(date->year, date->month, date->day) * 1440 + date->hour * 60 +
                      date->minute - date->offset;
    int64_t days = (minutes >= 0 ? minutes : minutes - 1439) / 1440;
    int in_day = (int)(minutes - days * 1440);
    find_day(date, days);
    date->hour = in_day / 60;
    date->minute = in_day % 60;
    date->offset = 0;
    return true;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static double year_of(const td__date *d) {
    return (double)d->year;
}

static double month_of(const td__date *d) {
    return d->month;
}

static double day_of(const td__date *d) {
    return d->day;
}

/* Monday is 0, as pandas has it; 1970-01-01 was a Thursday. */
static double weekday_of(const td__date *d) {
    int64_t days = count_days(d->year, d->month, d->day) + 3;
    return (double)((days % 7 + 7) % 7);
}

static double day_of_year(const td__date *d) {
    return (double)(count_days(d->year, d->month, d->day) - count_days(d->year, 1, 1) + 1);
}

static double hour_of(const td__date *d) {
    return d->hour;
}

static double minute_of(const td__date *d) {
    return d->minute;
}

static double second_of(const td__date *d) {
    return d->second;
}

/* How far a cycle is, from 0 to 1. */
static double in_months(const td__date *d) {
    return (d->month - 1) / 12.0;
}

static double in_week(const td__date *d) {
    return weekday_of(d) / 7;
}

static double in_year(const td__date *d) {
    return (day_of_year(d) - 1) / (is_leap(d->year) ? 366 : 365);
}

static double in_day(const td__date *d) {
    return (d->hour + d->minute / 60.0 + d->second / 3600) / 24;
}

typedef enum turn { PLAIN, SINE, COSINE, SINCE } turn;
typedef enum by_default { ASKED, ALWAYS, OF_TIMES } by_default;

static const struct {
    const char *name;
    double (*value)(const td__date *date);
    turn turn;
    by_default by_default;
} parts[] = {
    {"year", year_of, PLAIN, ALWAYS},
    {"month", month_of, PLAIN, ALWAYS},
    {"day", day_of, PLAIN, ALWAYS},
    {"weekday", weekday_of, PLAIN, ALWAYS},
    {"day_of_year", day_of_year, PLAIN, ASKED},
    {"hour", hour_of, PLAIN, OF_TIMES},
    {"minute", minute_of, PLAIN, ASKED},
    {"second", second_of, PLAIN, ASKED},
    {"month_sin", in_months, SINE, ALWAYS},
    {"month_cos", in_months, COSINE, ALWAYS},
    {"weekday_sin", in_week, SINE, ALWAYS},
    {"weekday_cos", in_week, COSINE, ALWAYS},
    {"day_of_year_sin", in_year, SINE, ASKED},
    {"day_of_year_cos", in_year, COSINE, ASKED},
    {"hour_sin", in_day, SINE, OF_TIMES},
    {"hour_cos", in_day, COSINE, OF_TIMES},
    {"days", td__date_seconds, SINCE, ALWAYS},
};
enum { PARTS = sizeof parts / sizeof *parts };

int td__date_part(const char *name) {
    for (int i = 0; i < PARTS; i++) {
        if (!strcmp(parts[i].name, name)) {
            return i;
        }
    }
    return -1;
}

const char *td__date_part_name(int part) {
    return part < PARTS ? parts[part].name : NULL;
}

bool td__date_part_is_default(int part, bool has_time) {
    return parts[part].by_default == ALWAYS || (parts[part].by_default == OF_TIMES && has_time);
}

double td__date_value(const td__date *date, int part, int64_t since) {
    double value = parts[part].value(date), angle = 2 * M_PI * value;
    switch (parts[part].turn) {
    case SINE:
        return sin(angle);
    case COSINE:
        return cos(angle);
    case SINCE:
        return (value - (double)since) / 86400;
    case PLAIN:
        break;
    }
    return value;
}
