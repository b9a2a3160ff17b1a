/* compare_output: the table, CSV and JSON.  See compare.h. */
#include "compare_output.h"
#include "error.h"
#include "file.h"
#include "json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void mot_comparison_free(struct mot_comparison *c)
{
    for (int k = 0; c->runs && k < c->n_policies * c->n_cases; k++) { free(c->runs[k].failure); }
    for (int p = 0; p < c->n_policies; p++) {
        free(c->policies[p].label);
        free(c->policies[p].name);
    }
    for (int i = 0; i < c->n_cases; i++) { free(c->cases[i].graph); }
    free(c->runs);
    free(c->policies);
    free(c->cases);
    free(c->what);
    free(c->where);
    memset(c, 0, sizeof(*c));
}

static const struct mot_compared_run *run_of(const struct mot_comparison *c, int policy, int index)
{
    return &c->runs[policy * c->n_cases + index];
}

double mot_compared_ratio(const struct mot_comparison *c, int policy, int index)
{
    const struct mot_compared_run *run = run_of(c, policy, index);
    return run->failure ? NAN : run->makespan_s / run->bound_s;
}

struct mot_compared_summary mot_compared_summary(const struct mot_comparison *c, int policy)
{
    struct mot_compared_summary s = {.mean_ratio = NAN, .worst_ratio = NAN, .mean_makespan_s = NAN};
    double logs = 0.0, seconds = 0.0;
    for (int i = 0; i < c->n_cases; i++) {
        const double ratio = mot_compared_ratio(c, policy, i);
        s.failed += isnan(ratio);
        if (isnan(ratio)) { continue; }
        s.runs++;
        logs += log(ratio);
        seconds += run_of(c, policy, i)->makespan_s;
        s.worst_ratio = fmax(s.worst_ratio, ratio);
    }
    if (s.runs > 0) {
        s.mean_ratio = exp(logs / s.runs);
        s.mean_makespan_s = seconds / s.runs;
    }
    return s;
}

/* ---- Text ------------------------------------------------------------------------------------ */

void mot_compared_print(const struct mot_comparison *c)
{
    int width = 6;
    for (int p = 0; p < c->n_policies; p++) {
        const int n = (int)strlen(c->policies[p].label);
        width = n > width ? n : width;
    }
    printf("%s on %s: makespan over the lower bound, %d runs each\n\n", c->what, c->where,
           c->n_cases);
    printf("%-*s %8s %8s %14s\n", width, "policy", "mean", "worst", "makespan");
    for (int p = 0; p < c->n_policies; p++) {
        const struct mot_compared_summary s = mot_compared_summary(c, p);
        printf("%-*s ", width, c->policies[p].label);
        if (s.runs > 0) {
            printf("%8.3f %8.3f %12.6g s", s.mean_ratio, s.worst_ratio, s.mean_makespan_s);
        }
        if (s.failed > 0) { printf("  %d failed", s.failed); }
        puts("");
    }
    puts("\nmean: geometric; worst: of the runs; makespan: arithmetic mean");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *run_json(const struct mot_comparison *c, int p, int i)
{
    const struct mot_compared_run *run = run_of(c, p, i);
    json_t *o = json_object();
    json_object_set_new(o, "policy", json_string(c->policies[p].label));
    json_object_set_new(o, "graph",
                        c->cases[i].graph ? json_string(c->cases[i].graph) : json_null());
    json_object_set_new(o, "seed", json_integer(c->cases[i].seed));
    json_object_set_new(o, "makespan_s", mot_json_number(run->makespan_s));
    json_object_set_new(o, "bound_s", mot_json_number(run->bound_s));
    json_object_set_new(o, "ratio", mot_json_number(mot_compared_ratio(c, p, i)));
    if (run->failure) {
        json_object_set_new(o, "failure", mot_json_string(run->failure, strlen(run->failure)));
    }
    return o;
}

static json_t *summary_json(const struct mot_comparison *c, int p)
{
    const struct mot_compared_summary s = mot_compared_summary(c, p);
    json_t *o = json_object();
    json_object_set_new(o, "policy", json_string(c->policies[p].label));
    json_object_set_new(o, "mean_ratio", mot_json_number(s.mean_ratio));
    json_object_set_new(o, "worst_ratio", mot_json_number(s.worst_ratio));
    json_object_set_new(o, "mean_makespan_s", mot_json_number(s.mean_makespan_s));
    json_object_set_new(o, "runs", json_integer(s.runs));
    json_object_set_new(o, "failed", json_integer(s.failed));
    return o;
}

/* To free. */
static char *json_of(const struct mot_comparison *c)
{
    json_t *o = json_object(), *policies = json_array(), *runs = json_array();
    json_object_set_new(o, "workload", mot_json_string(c->what, strlen(c->what)));
    json_object_set_new(o, "machine", mot_json_string(c->where, strlen(c->where)));
    for (int p = 0; p < c->n_policies; p++) {
        json_array_append_new(policies, summary_json(c, p));
        for (int i = 0; i < c->n_cases; i++) { json_array_append_new(runs, run_json(c, p, i)); }
    }
    json_object_set_new(o, "policies", policies);
    json_object_set_new(o, "runs", runs);
    char *text = mot_json_text(o);
    json_decref(o);
    return text;
}

void mot_compared_print_json(const struct mot_comparison *c)
{
    char *text = json_of(c);
    puts(text);
    free(text);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void write_json(const struct mot_comparison *c, FILE *file)
{
    char *text = json_of(c);
    fprintf(file, "%s\n", text);
    free(text);
}

/* A field as RFC 4180 has it. */
static void write_field(FILE *file, const char *text)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') { fputc('"', file); }
        fputc(*text, file);
    }
    fputc('"', file);
}

static void write_value(FILE *file, double value)
{
    if (!isnan(value)) { fprintf(file, "%.9g", value); }
    fputc(',', file);
}

static void write_csv(const struct mot_comparison *c, FILE *file)
{
    fputs("policy,graph,seed,makespan_s,bound_s,ratio,failure\n", file);
    for (int p = 0; p < c->n_policies; p++) {
        for (int i = 0; i < c->n_cases; i++) {
            const struct mot_compared_run *run = run_of(c, p, i);
            write_field(file, c->policies[p].label);
            fputc(',', file);
            write_field(file, c->cases[i].graph ? c->cases[i].graph : "");
            fprintf(file, ",%lld,", (long long)c->cases[i].seed);
            write_value(file, run->makespan_s);
            write_value(file, run->bound_s);
            write_value(file, mot_compared_ratio(c, p, i));
            write_field(file, run->failure ? run->failure : "");
            fputc('\n', file);
        }
    }
}

static const struct {
    const char *suffix;
    void (*write)(const struct mot_comparison *c, FILE *file);
} forms[] = {{".csv", write_csv},
             {".json", write_json},
             {".svg", mot_compared_write_svg},
             {".html", mot_compared_write_html}};

static int form_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < (int)(sizeof(forms) / sizeof(forms[0])); i++) {
        if (strcmp(dot, forms[i].suffix) == 0) { return i; }
    }
    return mot_fail(EINVAL, "output: '%s' ends in none of .csv, .json, .svg, .html", path);
}

int mot_compared_check_output(const char *path)
{
    const int form = form_of(path);
    return form < 0 ? form : mot_file_check_output(path);
}

int mot_compared_write(const struct mot_comparison *c, const char *path)
{
    const int form = form_of(path);
    if (form < 0) { return form; }
    char *bytes = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&bytes, &n);
    MOT_ASSERT(memory);
    forms[form].write(c, memory);
    MOT_ASSERT(fclose(memory) == 0);
    const int error = mot_file_write(path, bytes, n);
    free(bytes);
    return error;
}
