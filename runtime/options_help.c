/* --help: every option with what it takes, its default, limits and meaning, in sections, wrapped to
 * the terminal or to 100 columns.  See options.h. */
#include "error.h"
#include "option_value.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 60, WIDTH_DEFAULT = 100, MEANING_COLUMN = 30 };

static int width_of(FILE *file)
{
    struct winsize size;
    if (!isatty(fileno(file)) || ioctl(fileno(file), TIOCGWINSZ, &size) < 0 || size.ws_col == 0) {
        return WIDTH_DEFAULT;
    }
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

/* Words of text from column `column` on, further lines indented by `indent`. */
static void print_wrapped(const char *text, int column, int indent, int width, FILE *file)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");
        if (column > indent && column + 1 + n > width) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', file);
            column++;
        }
        fprintf(file, "%.*s", n, text);
        column += n;
        text += n + strspn(text + n, " ");
    }
    fputc('\n', file);
}

/* What follows the name: "N", "group|batch|none"...; to free. */
static char *placeholder(const struct mot_option *row)
{
    switch (row->type) {
    case MOT_OPTION_INT:
    case MOT_OPTION_INT64:
        return mot_strdup(" N");
    case MOT_OPTION_FLOAT:
        return mot_strdup(" X");
    case MOT_OPTION_STRING:
        return mot_strdup(" TEXT");
    case MOT_OPTION_LIST:
        return mot_strdup(" A,B");
    case MOT_OPTION_CHOICE:
        return mot_strdup(" WORD");
    default:
        break;
    }
    return mot_strdup("");
}

/* "group, batch or none", to free. */
static char *choices_text(const char *choices)
{
    char *text = mot_option_choice(choices, 0);
    for (int i = 1;; i++) {
        char *choice = mot_option_choice(choices, i);
        char *next = choice ? mot_option_choice(choices, i + 1) : NULL;
        if (!choice) { return text; }
        char *longer = mot_format("%s%s%s", text, next ? ", " : " or ", choice);
        free(next);
        free(choice);
        free(text);
        text = longer;
    }
}

static void print_row(const struct mot_option *row, int width, FILE *file)
{
    char *value = placeholder(row);
    char *domain =
        row->type == MOT_OPTION_CHOICE ? choices_text(row->domain) : mot_option_limits(row);
    const char *given = row->default_text;
    char *standard = !given   ? mot_strdup("must be given")
                     : *given ? mot_format("default %s", given)
                              : mot_strdup("");
    char *facts = mot_format("%s%s%s", domain, *domain && *standard ? "; " : "", standard);
    char *text = *facts ? mot_format("%s [%s]", row->help, facts) : mot_strdup(row->help);
    int column = fprintf(file, "  --%s%s", row->name, value);
    if (column > MEANING_COLUMN - 2) {
        fputc('\n', file);
        column = 0;
    }
    fprintf(file, "%*s", MEANING_COLUMN - column, "");
    print_wrapped(text, MEANING_COLUMN, MEANING_COLUMN, width, file);
    free(text);
    free(facts);
    free(standard);
    free(domain);
    free(value);
}

void mot_options_print_help(const struct mot_option *table, const char *usage, FILE *file)
{
    static const struct mot_option general[] = {
        {.name = "config",
         .type = MOT_OPTION_STRING,
         .default_text = "",
         .help = "YAML file of lines \"name: value\" with the names above; flags win over it."},
        {.name = "help", .type = MOT_OPTION_BOOL, .default_text = "", .help = "This text."},
        {0}};
    const int width = width_of(file);
    if (usage) {
        const size_t n = strlen(usage);
        fprintf(file, "%s%s", usage, n > 0 && usage[n - 1] == '\n' ? "" : "\n");
    }
    const char *section = "";
    struct mot_option *flat = mot_options_flatten(table);
    for (const struct mot_option *row = flat; row->name; row++) {
        if (row->section && strcmp(row->section, section) != 0) {
            section = row->section;
            fprintf(file, "\n%s\n", section);
        }
        print_row(row, width, file);
    }
    free(flat);
    fprintf(file, "\nGeneral\n");
    for (const struct mot_option *row = general; row->name; row++) { print_row(row, width, file); }
}
