/* The lines on which JSON values begin, which jansson forgets: for messages about values that are
 * JSON but make no sense. */
#ifndef MOT_JSON_LINES_H
#define MOT_JSON_LINES_H
#include <jansson.h>
#include <stddef.h>

struct mot_json_lines;
/* root: what mot_json_parse made of these bytes, and nobody has changed; borrows both until the
 * last find. */
struct mot_json_lines *mot_json_lines_create(const json_t *root, const char *bytes, size_t n);
void mot_json_lines_destroy(struct mot_json_lines *lines); /* NULL is allowed */
/* 1 is the first line; 0: not a value of root, or one of true, false and null. */
int mot_json_lines_find(const struct mot_json_lines *lines, const json_t *value);
#endif
