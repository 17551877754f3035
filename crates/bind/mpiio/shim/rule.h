/* The rule of `auto` for collective calls of a file. It decides how the ranks make the next call:
 * together, through an exchange that lets the I/O daemons carry it out, or each rank alone, without
 * an exchange. It uses no MPI function. docs/adr/0024-choice-of-collective-method.md
 *
 *   turn     T T T T T T T T A A | T T T T T T T T T T T T T T T T A A | ...      T together, A
 *   alone
 *                                '- here the ranks exchange what both methods have cost
 *
 * 1. All ranks have the same state before every call. The state depends only on exchanged reports
 * and on
 *    the number of calls. What a rank measures itself (`mine`) enters it only with the next
 *    exchange.
 * 2. A turn starts with a call together, and has at least one call of each method, so that no
 * method is
 *    forgotten.
 * 3. The method that is slower so far gets `probe` calls of a turn. Their extra cost stays below
 * 1/LOSS    of the turn, except in turns that are still growing. */
#ifndef BRAID_MPIIO_RULE_H
#define BRAID_MPIIO_RULE_H

#include <stdint.h>

enum method { ALONE, TOGETHER };

/* The cost of the calls of one rank. */
struct spent {
    int64_t calls, bytes, nanoseconds;
};

/* The report of a rank to all others in an exchange: the bytes that it asks for in this call, and
 * the cost of its last calls of each method in this turn. */
struct report {
    int64_t asked;
    struct spent spent[2];
};

enum { COSTS = 5, SIZES = 48 };

/* The history of calls of one size: the last costs of each method, the number of measured costs,
 * the favoured method, and its number of calls in a turn. */
struct of_size {
    int64_t costs[2][COSTS], known[2], favours;
    enum method favoured;
};

struct rule {
    /* Remaining calls of this turn; the number of calls of the slower method; the size of this
     * turn, and the number of consecutive calls of another size. */
    int64_t left[2], probe;
    int size, other_size;
    struct spent mine[2];
    struct of_size sizes[SIZES];
};

/* Forgets everything: the next call is made together. */
void rule_reset(struct rule *rule);

/* The method of the next call; counts it. For each call together, the reports of all ranks must be
 * exchanged before the next call. */
enum method rule_next(struct rule *rule);
struct report rule_report(const struct rule *rule, int64_t asked);
void rule_update(struct rule *rule, const struct report *all, int ranks);

/* Records the cost of a call of this rank, of either method. */
void rule_measure(struct rule *rule, enum method method, int64_t bytes, int64_t nanoseconds);

#endif
