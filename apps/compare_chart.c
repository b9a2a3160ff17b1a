/* compare_chart: a row for each policy, a dot for each run at its makespan over the bound, a bar at
 * their geometric mean.  The axis is logarithmic where the worst is far.  See compare_output.h. */
#include "compare_output.h"
#include <math.h>
#include <string.h>

enum { LEFT = 170, PLOT = 520, RIGHT = 130, TOP = 64, ROW = 26, BOTTOM = 44 };

struct axis {
    double from, to;
    int is_log;
};

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text) || (unsigned char)*text < ' ') {
            fprintf(f, "&#%d;", (unsigned char)*text < ' ' ? ' ' : *text);
        } else {
            fputc(*text, f);
        }
    }
}

static struct axis axis_of(const struct mot_comparison *c)
{
    struct axis axis = {1.0, 1.0, 0};
    for (int p = 0; p < c->n_policies; p++) {
        for (int i = 0; i < c->n_cases; i++) {
            const double ratio = mot_compared_ratio(c, p, i);
            axis.to = fmax(axis.to, ratio);
        }
    }
    axis.is_log = axis.to > 5.0;
    axis.to = axis.is_log ? axis.to * 1.15 : axis.to + 0.08 * fmax(axis.to - 1.0, 0.1);
    return axis;
}

static double place(const struct axis *a, double ratio)
{
    const double at = a->is_log ? log(ratio / a->from) / log(a->to / a->from)
                                : (ratio - a->from) / (a->to - a->from);
    return LEFT + PLOT * fmin(fmax(at, 0.0), 1.0);
}

static void put_tick(FILE *f, const struct axis *a, double value, int bottom)
{
    const double x = place(a, value);
    fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"grid\"/>", x, x, TOP - 6,
            bottom);
    fprintf(f, "<text x=\"%.1f\" y=\"%d\" class=\"tick\">%.4g</text>\n", x, bottom + 16, value);
}

static void put_ticks(FILE *f, const struct axis *a, int bottom)
{
    if (a->is_log) {
        static const double steps[] = {1.0, 2.0, 5.0};
        for (double decade = 1.0; decade <= a->to; decade *= 10.0) {
            for (int i = 0; i < 3 && decade * steps[i] <= a->to; i++) {
                put_tick(f, a, decade * steps[i], bottom);
            }
        }
        return;
    }
    double step = pow(10.0, floor(log10((a->to - a->from) / 4.0)));
    step *= (a->to - a->from) / step > 25.0 ? 5.0 : (a->to - a->from) / step > 10.0 ? 2.0 : 1.0;
    for (int i = 0; a->from + i * step <= a->to; i++) {
        put_tick(f, a, a->from + i * step, bottom);
    }
}

static void put_row(FILE *f, const struct mot_comparison *c, const struct axis *a, int p)
{
    const struct mot_compared_summary s = mot_compared_summary(c, p);
    const int y = TOP + ROW * p + ROW / 2;
    fprintf(f, "<text x=\"%d\" y=\"%d\" class=\"name\">", LEFT - 12, y + 4);
    put_text(f, c->policies[p].label);
    fputs("</text>", f);
    for (int i = 0; i < c->n_cases; i++) {
        const double ratio = mot_compared_ratio(c, p, i);
        if (isnan(ratio)) { continue; }
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%d\" r=\"3.5\"/>", place(a, ratio), y);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" class=\"value\">", LEFT + PLOT + 12, y + 4);
    if (s.runs > 0) { fprintf(f, "%.2f (%.2f)", s.mean_ratio, s.worst_ratio); }
    if (s.failed > 0) { fprintf(f, " %d failed", s.failed); }
    fputs("</text>", f);
    if (s.runs > 0) {
        const double x = place(a, s.mean_ratio);
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"mean\"/>", x, x,
                y - 9, y + 9);
    }
    fputc('\n', f);
}

static void put_heading(FILE *f, const struct mot_comparison *c)
{
    put_text(f, c->what);
    fputs(" on ", f);
    put_text(f, c->where);
}

void mot_compared_write_svg(const struct mot_comparison *c, FILE *f)
{
    const struct axis axis = axis_of(c);
    const int bottom = TOP + ROW * c->n_policies, width = LEFT + PLOT + RIGHT;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n",
            width, bottom + BOTTOM, width, bottom + BOTTOM);
    fputs("<style>text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:15px;"
          "font-weight:600}.note,.tick{fill:#666;font-size:12px}.tick{text-anchor:middle}"
          ".name{text-anchor:end}.grid{stroke:#ddd}.mean{stroke:#c2410c;stroke-width:3}"
          "circle{fill:#2563eb;fill-opacity:.35}</style>\n",
          f);
    fprintf(f, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, bottom + BOTTOM);
    fputs("<text x=\"12\" y=\"22\" class=\"title\">", f);
    put_heading(f, c);
    fprintf(
        f,
        "</text>\n<text x=\"12\" y=\"42\" class=\"note\">makespan over the lower bound%s: a dot "
        "for each of %d runs, a bar at the geometric mean; at the right mean (worst)</text>\n",
        axis.is_log ? ", logarithmic" : "", c->n_cases);
    put_ticks(f, &axis, bottom);
    for (int p = 0; p < c->n_policies; p++) { put_row(f, c, &axis, p); }
    fputs("</svg>\n", f);
}

static void put_cell(FILE *f, double value, const char *format_of_two)
{
    fputs("<td>", f);
    if (!isnan(value)) { fprintf(f, strcmp(format_of_two, "3") == 0 ? "%.3f" : "%.6g", value); }
    fputs("</td>", f);
}

static void put_table(FILE *f, const struct mot_comparison *c)
{
    fputs("<table><tr><th>policy</th><th>mean</th><th>worst</th><th>mean makespan (s)</th>"
          "<th>runs</th><th>failed</th></tr>\n",
          f);
    for (int p = 0; p < c->n_policies; p++) {
        const struct mot_compared_summary s = mot_compared_summary(c, p);
        fputs("<tr><th>", f);
        put_text(f, c->policies[p].label);
        fputs("</th>", f);
        put_cell(f, s.mean_ratio, "3");
        put_cell(f, s.worst_ratio, "3");
        put_cell(f, s.mean_makespan_s, "6");
        fprintf(f, "<td>%d</td><td>%d</td></tr>\n", s.runs, s.failed);
    }
    fputs("</table>\n", f);
}

/* A line for each case, a column for each policy. */
static void put_runs(FILE *f, const struct mot_comparison *c)
{
    fputs("<details><summary>every run</summary><table><tr><th>graph</th><th>seed</th>", f);
    for (int p = 0; p < c->n_policies; p++) {
        fputs("<th>", f);
        put_text(f, c->policies[p].label);
        fputs("</th>", f);
    }
    fputs("</tr>\n", f);
    for (int i = 0; i < c->n_cases; i++) {
        fputs("<tr><th>", f);
        put_text(f, c->cases[i].graph ? c->cases[i].graph : "");
        fprintf(f, "</th><td>%lld</td>", (long long)c->cases[i].seed);
        for (int p = 0; p < c->n_policies; p++) {
            const struct mot_compared_run *run = &c->runs[p * c->n_cases + i];
            if (run->failure) {
                fputs("<td title=\"", f);
                put_text(f, run->failure);
                fputs("\">failed</td>", f);
            } else {
                put_cell(f, mot_compared_ratio(c, p, i), "3");
            }
        }
        fputs("</tr>\n", f);
    }
    fputs("</table></details>\n", f);
}

void mot_compared_write_html(const struct mot_comparison *c, FILE *f)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>", f);
    put_heading(f, c);
    fputs("</title>\n<style>body{font:14px system-ui,sans-serif;margin:24px;color:#222;"
          "background:#fff}table{border-collapse:collapse;margin:16px 0}td,th{padding:3px 10px;"
          "text-align:right;border-bottom:1px solid #ddd}th:first-child{text-align:left}"
          "svg{max-width:100%;height:auto}</style>\n",
          f);
    mot_compared_write_svg(c, f);
    put_table(f, c);
    put_runs(f, c);
    fputs("</html>\n", f);
}
