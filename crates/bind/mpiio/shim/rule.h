/* The rule of `auto`: whether the ranks make the next collective call of a file together, through an exchange that lets the I/O daemons
 * carry it out, or each alone, without one. No MPI is in here. docs/adr/0024-choice-of-collective-method.md
 *
 *   turn     T T T T T T T T A A | T T T T T T T T T T T T T T T T A A | ...      T together, A alone
 *                                '- here the ranks tell each other what both ways have cost
 *
 * 1. All ranks are in the same state before every call: the state changes by what all were told, and by the number of calls, alone. What a
 *    rank measures itself (`mine`) goes into it only with the next exchange.
 * 2. A turn begins with a call that is made together, and each way has a call in it at least: neither is forgotten.
 * 3. The way that has been found slower gets `probe` calls of a turn, and what they cost more is kept below a LOSSth of the turn, but for turns
 *    that are still growing. */
#ifndef BRAID_MPIIO_RULE_H
#define BRAID_MPIIO_RULE_H

#include <stdint.h>

enum who { ALONE, TOGETHER };

/* What a rank's calls took. */
struct spent {
    int64_t calls, bytes, nanoseconds;
};

/* What each rank tells all others in an exchange: the bytes that it asks for in this call, and what its last calls of each way of this turn took. */
struct told {
    int64_t asked;
    struct spent spent[2];
};

enum { COSTS = 5, SIZES = 48 };

/* What is known of calls of one size: the last costs of each way, how many there ever were, which way is favoured, with how many calls of a turn. */
struct of_size {
    int64_t costs[2][COSTS], known[2], favours;
    enum who favoured;
};

struct rule {
    /* Calls of this turn that are left; how many of the slower way it has; its size, and how many calls in a row were of another. */
    int64_t left[2], probe;
    int size, strange;
    struct spent mine[2];
    struct of_size sizes[SIZES];
};

/* Knows nothing: the next call is made together. */
void rule_reset(struct rule *rule);

/* Who makes the next call; counts it. Each call that is made together is told and heard of before the next. */
enum who rule_next(struct rule *rule);
struct told rule_tell(const struct rule *rule, int64_t asked);
void rule_hear(struct rule *rule, const struct told *all, int ranks);

/* What a call of this rank took, in either way. */
void rule_spend(struct rule *rule, enum who who, int64_t bytes, int64_t nanoseconds);

#endif
