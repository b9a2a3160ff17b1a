/* Nearest name by edit distance, with swaps of neighbours (optimal string alignment: Boytsov 2011,
 * "Indexing methods for approximate dictionary searching", section 2.2).  Names are short and few:
 * the plain dynamic programme over three rows is enough.  See nearest_name.h. */
#include "nearest_name.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { LENGTH_MAX = 63 }; /* of a word or name; longer ones are near to nothing */

static int fold(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static int min3(int a, int b, int c)
{
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Insertions, deletions, replacements and swaps that turn a into b; both at most LENGTH_MAX
 * long. */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int rows[3][LENGTH_MAX + 1]; /* distances of a's first i letters to each prefix of b */
    int *before = rows[0], *previous = rows[1], *current = rows[2];
    for (int j = 0; j <= n_b; j++) { previous[j] = j; }
    for (int i = 1; i <= n_a; i++) {
        current[0] = i;
        for (int j = 1; j <= n_b; j++) {
            const int differs = fold(a[i - 1]) != fold(b[j - 1]);
            current[j] = min3(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + differs);
            const int swapped = i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2])
                                && fold(a[i - 2]) == fold(b[j - 1]);
            if (swapped && before[j - 2] + 1 < current[j]) { current[j] = before[j - 2] + 1; }
        }
        int *const free_row = before;
        before = previous;
        previous = current;
        current = free_row;
    }
    return previous[n_b];
}

const char *mot_nearest_name(const char *word, const char *const *names)
{
    const size_t n_word = strlen(word);
    if (n_word == 0 || n_word > LENGTH_MAX) { return NULL; }
    int best = 1 + (n_word < 2 ? 0 : n_word < 6 ? 1 : (int)n_word / 3); /* only nearer ones count */
    const char *nearest = NULL;
    for (int i = 0; names[i]; i++) {
        const size_t n_name = strlen(names[i]);
        if (n_name > LENGTH_MAX) { continue; }
        const int distance = edit_distance(word, (int)n_word, names[i], (int)n_name);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
