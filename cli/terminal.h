/* What a terminal can do, and a line at its bottom that shows progress.
 *
 * The line is drawn on stderr. What is printed meanwhile (by tracks, from the writer's thread) goes
 * through terminal_stream, which takes the line away first; the next progress brings it back. */
#ifndef TAPEDECK_CLI_TERMINAL_H
#define TAPEDECK_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Whether colours may be used on the stream: a terminal, and neither NO_COLOR nor TERM=dumb. */
bool terminal_has_colour(FILE *stream);
/* Returns true when the locale uses UTF-8 or when no locale is set. */
bool terminal_has_utf8(void);
/* Where colour is set: what is printed to stdout from now on is painted. "1" is bold, "31" red, … "0"
 * plain again. */
void terminal_paint(bool colour, const char *sequence);
/* Likewise, in one of the 256 colours. */
void terminal_paint_number(bool colour, int number);
/* The columns of the terminal or the value of COLUMNS; 80 when neither is known. */
int terminal_width(void);
/* Columns that lines of tables have: INT_MAX where there is neither a terminal nor COLUMNS. */
int terminal_room(void);
/* Whether a progress line makes sense: stderr is a terminal that can go back in a line. */
bool terminal_is_live(void);

/* Shows text (one line, without its end) in place of what was there. */
void terminal_show(const char *text);
void terminal_clear(void);
/* A stream to stdout that works together with the line; NULL when there is no memory for it. Close it. */
FILE *terminal_stream(void);

/* A bar of 24 cells, filled to that share; out has 128 bytes. Returns out. */
const char *terminal_bar(char *out, double share);
/* How many columns a text takes: one for each character of UTF-8. */
int terminal_columns(const char *text);
/* Prints the text and blanks up to this many columns of stdout; a longer one is printed whole. */
void terminal_print_padded(const char *text, int width);
/* Prints the name in that many columns; a longer name is cut and ends with "..". */
void terminal_print_name(const char *name, int width);
/* Of a clock that only goes forward. */
double seconds_now(void);
/* "12.3 s", "4:05", "1:02:03"; out has 32 bytes. Returns out. */
const char *terminal_time(char *out, double seconds);
/* "340 B", "1.2 MiB"; out has 32 bytes. Returns out. */
const char *terminal_bytes(char *out, double bytes);
/* What a word of a shell's command line can grow to when it is quoted. */
#define SHELL_WORD_SIZE(length) (4 * (length) + 3)
/* The text as such a word; out has SHELL_WORD_SIZE(strlen(text)) bytes. Returns out. */
const char *shell_word(char *out, const char *text);

#endif
