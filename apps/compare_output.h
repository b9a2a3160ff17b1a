/* Charts of a comparison (compare_chart.c), for compare_output.c. */
#ifndef MOT_COMPARE_OUTPUT_H
#define MOT_COMPARE_OUTPUT_H
#include "compare.h"
#include <stdio.h>

void mot_compared_write_svg(const struct mot_comparison *c, FILE *file);
void mot_compared_write_html(const struct mot_comparison *c, FILE *file);
#endif
