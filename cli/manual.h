/* The man page and the shells' completions, made of the commands' help and option tables. */
#ifndef TAPEDECK_CLI_MANUAL_H
#define TAPEDECK_CLI_MANUAL_H

#include "command.h"

#include <stdbool.h>

/* troff, to stdout. */
void print_man(const command *const *commands, int count);
/* For "bash", "zsh" or "fish", to stdout; false for any other shell. */
bool print_completion(const char *shell, const command *const *commands, int count);

#endif
