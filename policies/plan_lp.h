/* Linear programs, and ones with whole-number columns, solved by COIN-OR's Clp and CBC through
 * their C interfaces.  Built row by row:
 *
 *     struct mot_lp *lp = mot_lp_create();
 *     const int x = mot_lp_column(lp, 0.0, 1.0, 2.0, 0);      minimise 2 x + y, 0 <= x <= 1
 *     const int y = mot_lp_column(lp, 0.0, INFINITY, 1.0, 0);
 *     mot_lp_row(lp, 3.0, INFINITY);                          3 <= x + y
 *     mot_lp_term(lp, x, 1.0);
 *     mot_lp_term(lp, y, 1.0);
 *     if (mot_lp_solve(lp, INFINITY) == 0) { ... mot_lp_value(lp, x) ... }
 *     mot_lp_destroy(lp);
 *
 * Not thread-safe per program; two threads may solve two programs at the same time. */
#ifndef MOT_PLAN_LP_H
#define MOT_PLAN_LP_H

struct mot_lp;
struct mot_lp *mot_lp_create(void);
void mot_lp_destroy(struct mot_lp *lp); /* NULL is allowed */

/* Both return the index, from 0.  Bounds may be infinite; whole: integers only. */
int mot_lp_column(struct mot_lp *lp, double lower, double upper, double cost, int whole);
int mot_lp_row(struct mot_lp *lp, double lower, double upper);
/* Adds coefficient x column to the row begun last; each column at most once a row. */
void mot_lp_term(struct mot_lp *lp, int column, double coefficient);
/* A whole program starts its search from these column values, which meet all rows. */
void mot_lp_start(struct mot_lp *lp, const double *values);

/* Minimises.  0: the optimum; -EDOM: nothing meets the rows, or there is no least value; -ETIME:
 * not solved within seconds (a whole program may have a value by then, see mot_lp_objective).  No
 * message.  May be called again after more rows and columns. */
int mot_lp_solve(struct mot_lp *lp, double seconds);
/* Of the last solve.  The least value found (INFINITY: none), and the bound that no value can be
 * below, equal at the optimum. */
double mot_lp_objective(const struct mot_lp *lp);
double mot_lp_bound(const struct mot_lp *lp);
double mot_lp_value(const struct mot_lp *lp, int column);
/* How much the optimum grows as the row's active side does; without whole columns only. */
double mot_lp_price(const struct mot_lp *lp, int row);
int mot_lp_columns(const struct mot_lp *lp);
int mot_lp_rows(const struct mot_lp *lp);
#endif
