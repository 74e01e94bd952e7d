#include "manual.h"

#include "options.h"

#include <string.h>

/* ---- Man page -------------------------------------------------------------------------------- */

/* Text that troff takes as it is. */
static void put_troff(const char *text) {
    bool line_start = true;
    for (const char *c = text; *c; c++) {
        if (line_start && (*c == '.' || *c == '\'')) {
            (void)fputs("\\&", stdout);
        }
        if (*c == '\\') {
            (void)fputs("\\e", stdout);
        } else if (*c == '-') {
            (void)fputs("\\-", stdout);
        } else {
            (void)fputc(*c, stdout);
        }
        line_start = *c == '\n';
    }
}

void print_man(const command *const *commands, int count) {
    printf(".TH TAPEDECK 1 \"\" \"tapedeck %s\" \"User Commands\"\n", td_version());
    printf(".SH NAME\ntapedeck \\- show what happens inside a neural network while it trains\n"
           ".SH SYNOPSIS\n.B tapedeck\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n"
           ".SH COMMANDS\n");
    for (int i = 0; i < count; i++) {
        printf(".TP\n.B %s\n", commands[i]->name);
        put_troff(commands[i]->summary);
        (void)fputc('\n', stdout);
    }
    for (int i = 0; i < count; i++) {
        printf(".SH \"TAPEDECK %s\"\n.nf\n", commands[i]->name);
        print_command_help(commands[i], put_troff);
        (void)fputs(".fi\n", stdout);
    }
}

/* ---- Completions ----------------------------------------------------------------------------- */

typedef struct shell {
    const char *name;
    void (*begin)(const command *const *commands, int count);
    void (*begin_command)(const command *cmd);
    void (*put_option)(const command *cmd, const option *taken);
    void (*end_command)(void);
    void (*end)(void);
} shell;

static bool is_letter(const option *taken) {
    return !taken->name[1];
}

static const char *option_dashes(const option *taken) {
    return is_letter(taken) ? "-" : "--";
}

/* Within single quotes of any of the shells. */
static void put_quoted(const char *text) {
    for (const char *c = text; *c; c++) {
        (void)fputs(*c == '\'' ? "’" : *c == ':' ? " -" : (char[]){*c, 0}, stdout);
    }
}

static void bash_begin(const command *const *commands, int count) {
    (void)fputs("# bash completion for tapedeck\n_tapedeck() {\n"
                "    local word=${COMP_WORDS[COMP_CWORD]} options\n    COMPREPLY=()\n"
                "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"",
                stdout);
    for (int i = 0; i < count; i++) {
        printf("%s ", commands[i]->name);
    }
    (void)fputs("--help --version\" -- \"$word\")\n        return\n    fi\n"
                "    case ${COMP_WORDS[1]} in\n",
                stdout);
}

static void bash_command(const command *cmd) {
    printf("    %s) options=\"", cmd->name);
}

static void bash_option(const command *cmd, const option *taken) {
    (void)cmd;
    printf("%s%s ", option_dashes(taken), taken->name);
}

static void bash_end_command(void) {
    (void)fputs("--help\" ;;\n", stdout);
}

static void bash_end(void) {
    (void)fputs("    *) return ;;\n    esac\n    if [[ $word == -* ]]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
                "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                "        compopt -o filenames\n    fi\n}\ncomplete -F _tapedeck tapedeck\n",
                stdout);
}

static void zsh_begin(const command *const *commands, int count) {
    (void)fputs("#compdef tapedeck\n_tapedeck() {\n    local -a commands\n    commands=(\n",
                stdout);
    for (int i = 0; i < count; i++) {
        printf("        '%s:", commands[i]->name);
        put_quoted(commands[i]->summary);
        (void)fputs("'\n", stdout);
    }
    (void)fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
                "        return\n    fi\n    case $words[2] in\n",
                stdout);
}

static void zsh_command(const command *cmd) {
    printf("    %s) _arguments ", cmd->name);
}

static void zsh_option(const command *cmd, const option *taken) {
    (void)cmd;
    printf("'%s%s%s%s' ", taken->list ? "*" : "", option_dashes(taken), taken->name,
           taken->flag ? "" : ":value:_files");
}

static void zsh_end_command(void) {
    (void)fputs("'--help' '*:file:_files' ;;\n", stdout);
}

static void zsh_end(void) {
    (void)fputs("    esac\n}\n_tapedeck \"$@\"\n", stdout);
}

static void fish_begin(const command *const *commands, int count) {
    (void)fputs("# fish completion for tapedeck\n", stdout);
    for (int i = 0; i < count; i++) {
        printf("complete -c tapedeck -n __fish_use_subcommand -f -a %s -d '", commands[i]->name);
        put_quoted(commands[i]->summary);
        (void)fputs("'\n", stdout);
    }
}

static void fish_command(const command *cmd) {
    printf("complete -c tapedeck -n '__fish_seen_subcommand_from %s' -l help\n", cmd->name);
}

static void fish_option(const command *cmd, const option *taken) {
    printf("complete -c tapedeck -n '__fish_seen_subcommand_from %s' -%c %s%s\n", cmd->name,
           is_letter(taken) ? 's' : 'l', taken->name, taken->flag ? "" : " -r");
}

static void nothing(void) {}

static const shell shells[] = {
    {"bash", bash_begin, bash_command, bash_option, bash_end_command, bash_end},
    {"zsh", zsh_begin, zsh_command, zsh_option, zsh_end_command, zsh_end},
    {"fish", fish_begin, fish_command, fish_option, nothing, nothing},
};

static const shell *writing; /* for the visitor, which gets only the tables */

static void put_options(const command *cmd, const option *options, size_t count) {
    writing->begin_command(cmd);
    for (size_t i = 0; i < count; i++) {
        writing->put_option(cmd, &options[i]);
    }
    writing->end_command();
}

bool print_completion(const char *name, const command *const *commands, int count) {
    writing = NULL;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        writing = !strcmp(shells[i].name, name) ? &shells[i] : writing;
    }
    if (!writing) {
        return false;
    }
    writing->begin(commands, count);
    visit_options(put_options);
    for (int i = 0; i < count; i++) {
        (void)commands[i]->run(0, NULL);
    }
    visit_options(NULL);
    writing->end();
    return true;
}
