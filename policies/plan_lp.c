/* plan_lp: rows are gathered as triplets, turned into columns, and handed to Clp (no whole columns)
 * or CBC.  See plan_lp.h. */
#include "plan_lp.h"
#include "error.h"
#include <coin/Cbc_C_Interface.h> /* after Clp's: both declare what they share */
#include <coin/Clp_C_Interface.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct term {
    int row, column;
    double coefficient;
};

struct mot_lp {
    int n_columns, n_rows, n_terms;
    int column_capacity, row_capacity, term_capacity;
    double *column_lower, *column_upper, *cost;
    double *row_lower, *row_upper;
    char *whole;
    int n_whole;
    struct term *term;
    double *start;         /* (n_columns) or NULL */
    double *value, *price; /* of the last solve: (n_columns), (n_rows) */
    double objective, bound;
};

struct mot_lp *mot_lp_create(void)
{
    struct mot_lp *lp = mot_alloc_zeroed(1, sizeof(*lp));
    lp->objective = INFINITY;
    lp->bound = -INFINITY;
    return lp;
}

void mot_lp_destroy(struct mot_lp *lp)
{
    if (!lp) { return; }
    free(lp->column_lower);
    free(lp->column_upper);
    free(lp->cost);
    free(lp->row_lower);
    free(lp->row_upper);
    free(lp->whole);
    free(lp->term);
    free(lp->start);
    free(lp->value);
    free(lp->price);
    free(lp);
}

/* Infinity as Clp and CBC write it. */
static double coin_number(double x)
{
    return isinf(x) ? copysign(DBL_MAX, x) : x;
}

int mot_lp_column(struct mot_lp *lp, double lower, double upper, double cost, int whole)
{
    if (lp->n_columns == lp->column_capacity) {
        const size_t room = (size_t)(lp->column_capacity = 2 * lp->column_capacity + 64);
        lp->column_lower = mot_realloc(lp->column_lower, room * sizeof(double));
        lp->column_upper = mot_realloc(lp->column_upper, room * sizeof(double));
        lp->cost = mot_realloc(lp->cost, room * sizeof(double));
        lp->whole = mot_realloc(lp->whole, room);
    }
    lp->column_lower[lp->n_columns] = coin_number(lower);
    lp->column_upper[lp->n_columns] = coin_number(upper);
    lp->cost[lp->n_columns] = cost;
    lp->whole[lp->n_columns] = (char)(whole != 0);
    lp->n_whole += whole != 0;
    return lp->n_columns++;
}

int mot_lp_row(struct mot_lp *lp, double lower, double upper)
{
    if (lp->n_rows == lp->row_capacity) {
        const size_t room = (size_t)(lp->row_capacity = 2 * lp->row_capacity + 64);
        lp->row_lower = mot_realloc(lp->row_lower, room * sizeof(double));
        lp->row_upper = mot_realloc(lp->row_upper, room * sizeof(double));
    }
    lp->row_lower[lp->n_rows] = coin_number(lower);
    lp->row_upper[lp->n_rows] = coin_number(upper);
    return lp->n_rows++;
}

void mot_lp_term(struct mot_lp *lp, int column, double coefficient)
{
    MOT_ASSERT(lp->n_rows > 0 && column >= 0 && column < lp->n_columns && isfinite(coefficient));
    if (coefficient == 0.0) { return; }
    if (lp->n_terms == lp->term_capacity) {
        const size_t room = (size_t)(lp->term_capacity = 2 * lp->term_capacity + 256);
        lp->term = mot_realloc(lp->term, room * sizeof(*lp->term));
    }
    lp->term[lp->n_terms++] = (struct term){lp->n_rows - 1, column, coefficient};
}

void mot_lp_start(struct mot_lp *lp, const double *values)
{
    free(lp->start);
    lp->start = mot_alloc((size_t)lp->n_columns * sizeof(double));
    memcpy(lp->start, values, (size_t)lp->n_columns * sizeof(double));
}

/* The terms by column: start (n_columns + 1), row and coefficient (n_terms). */
struct columns {
    CoinBigIndex *start;
    int *row;
    double *coefficient;
};

static struct columns by_column(const struct mot_lp *lp)
{
    struct columns c;
    c.start = mot_alloc_zeroed((size_t)lp->n_columns + 2, sizeof(*c.start));
    c.row = mot_alloc((size_t)lp->n_terms * sizeof(*c.row));
    c.coefficient = mot_alloc((size_t)lp->n_terms * sizeof(*c.coefficient));
    CoinBigIndex *next = c.start + 1; /* next[j] ends as start[j + 1] */
    for (int i = 0; i < lp->n_terms; i++) { next[lp->term[i].column + 1]++; }
    for (int j = 0; j < lp->n_columns; j++) { next[j + 1] += next[j]; }
    for (int i = 0; i < lp->n_terms; i++) {
        const CoinBigIndex at = next[lp->term[i].column]++;
        c.row[at] = lp->term[i].row;
        c.coefficient[at] = lp->term[i].coefficient;
    }
    return c;
}

static void columns_free(struct columns *c)
{
    free(c->start);
    free(c->row);
    free(c->coefficient);
}

/* No whole columns: Clp. */
static int solve_continuous(struct mot_lp *lp, const struct columns *c, double seconds)
{
    Clp_Simplex *clp = Clp_newModel();
    Clp_setLogLevel(clp, 0);
    Clp_loadProblem(clp, lp->n_columns, lp->n_rows, c->start, c->row, c->coefficient,
                    lp->column_lower, lp->column_upper, lp->cost, lp->row_lower, lp->row_upper);
    if (isfinite(seconds)) { Clp_setMaximumSeconds(clp, seconds); }
    Clp_initialSolve(clp);
    const int state = Clp_status(clp); /* 0 optimal, 1 and 2 infeasible and unbounded, 3 stopped */
    if (state == 0) {
        lp->objective = lp->bound = Clp_objectiveValue(clp);
        memcpy(lp->value, Clp_primalColumnSolution(clp), (size_t)lp->n_columns * sizeof(double));
        memcpy(lp->price, Clp_dualRowSolution(clp), (size_t)lp->n_rows * sizeof(double));
    }
    Clp_deleteModel(clp);
    return state == 0 ? 0 : state == 1 || state == 2 ? -EDOM : -ETIME;
}

static int solve_whole(struct mot_lp *lp, const struct columns *c, double seconds)
{
    Cbc_Model *cbc = Cbc_newModel();
    Cbc_loadProblem(cbc, lp->n_columns, lp->n_rows, c->start, c->row, c->coefficient,
                    lp->column_lower, lp->column_upper, lp->cost, lp->row_lower, lp->row_upper);
    for (int j = 0; j < lp->n_columns; j++) {
        if (lp->whole[j]) { Cbc_setInteger(cbc, j); }
    }
    Cbc_setLogLevel(cbc, 0);
    if (isfinite(seconds)) { Cbc_setMaximumSeconds(cbc, seconds); }
    if (lp->start) {
        int *index = mot_alloc((size_t)lp->n_columns * sizeof(*index));
        for (int j = 0; j < lp->n_columns; j++) { index[j] = j; }
        Cbc_setMIPStartI(cbc, lp->n_columns, index, lp->start);
        free(index);
    }
    Cbc_solve(cbc);
    const int optimal = Cbc_isProvenOptimal(cbc);
    const double *best = Cbc_bestSolution(cbc);
    const int impossible = Cbc_isProvenInfeasible(cbc) || Cbc_isContinuousUnbounded(cbc);
    if (best) {
        lp->objective = Cbc_getObjValue(cbc);
        memcpy(lp->value, best, (size_t)lp->n_columns * sizeof(double));
    }
    lp->bound = optimal ? lp->objective : Cbc_getBestPossibleObjValue(cbc);
    Cbc_deleteModel(cbc);
    return optimal && best ? 0 : impossible ? -EDOM : -ETIME;
}

int mot_lp_solve(struct mot_lp *lp, double seconds)
{
    lp->objective = INFINITY;
    lp->bound = -INFINITY;
    free(lp->value);
    free(lp->price);
    lp->value = mot_alloc_zeroed((size_t)lp->n_columns, sizeof(double));
    lp->price = mot_alloc_zeroed((size_t)lp->n_rows, sizeof(double));
    struct columns columns = by_column(lp);
    const int status =
        lp->n_whole ? solve_whole(lp, &columns, seconds) : solve_continuous(lp, &columns, seconds);
    columns_free(&columns);
    return status;
}

double mot_lp_objective(const struct mot_lp *lp)
{
    return lp->objective;
}

double mot_lp_bound(const struct mot_lp *lp)
{
    return lp->bound;
}

double mot_lp_value(const struct mot_lp *lp, int column)
{
    MOT_ASSERT(lp->value && column >= 0 && column < lp->n_columns);
    return lp->value[column];
}

double mot_lp_price(const struct mot_lp *lp, int row)
{
    MOT_ASSERT(lp->price && row >= 0 && row < lp->n_rows);
    return lp->price[row];
}

int mot_lp_columns(const struct mot_lp *lp)
{
    return lp->n_columns;
}

int mot_lp_rows(const struct mot_lp *lp)
{
    return lp->n_rows;
}
