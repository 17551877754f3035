/* Measures which method of collective calls is faster: rule.h. It uses only integers, so that all
 * ranks compute the same. */
#include "rule.h"

#include <string.h>

enum {
    /* Calls of fewer bytes per rank are small: until it is measured, the exchange is assumed to
     * cost more than the daemons save. */
    SMALL_BYTES = 128 << 10,
    /* The fixed cost of a call, as a number of bytes: so calls of different sizes are
     * comparable. */
    CALL_BYTES = 64 << 10,
    /* Calls of the slower method in a turn. Two, if a call is so short that a moment of other load
     * dominates it, and the methods are close. */
    PROBE_CALLS = 2,
    LONG_BYTES = 512 << 10,
    /* Calls of the favoured method in a turn: at first, at least and at most. */
    FAVOURS_FIRST = 4,
    FAVOURS_LEAST = 16,
    FAVOURS_MOST = 4096,
    /* This factor is a clear difference: one call shows it, and the next turn has four times as
     * many calls. */
    CLEARLY = 2,
    /* The extra cost of the slower method is at most 1/LOSS of a turn. */
    LOSS = 50,
    /* This many consecutive calls of another size end a turn. */
    OTHER_SIZE_CALLS = 4,
};

void rule_reset(struct rule *rule) { memset(rule, 0, sizeof *rule); }

/* Size class: by powers of two of the mean of the ranks. */
static int size_of(int64_t bytes) {
    int size = bytes > 0 ? 64 - __builtin_clzll((unsigned long long)bytes) : 0;
    return size < SIZES ? size : SIZES - 1;
}

/* Whether a call is measured: the last `probe` calls of a turn, for both methods. The mean of many
 * calls cannot be compared with that of two where every tenth call meets the load of another
 * program. */
static int is_measured(const struct rule *rule, enum method method) {
    return rule->left[method] < rule->probe;
}

enum method rule_next(struct rule *rule) {
    if (rule->left[TOGETHER] > 0 || rule->left[ALONE] == 0) return TOGETHER;
    rule->left[ALONE]--;
    return ALONE;
}

struct report rule_report(const struct rule *rule, int64_t asked) {
    return (struct report){asked, {rule->mine[ALONE], rule->mine[TOGETHER]}};
}

void rule_measure(struct rule *rule, enum method method, int64_t bytes, int64_t nanoseconds) {
    if (!is_measured(rule, method)) return;
    struct spent *mine = &rule->mine[method];
    mine->calls++;
    mine->bytes += bytes;
    mine->nanoseconds += nanoseconds;
}

/* The cost of all ranks' calls of a method: the time of the slowest rank. The wait in an exchange
 * counts: a rank may wait for one whom the exchange has kept from a processor. The minimum of all
 * ranks would hide that. */
static struct spent of_all(const struct report *all, int ranks, enum method method) {
    struct spent sum = all[0].spent[method];
    for (int rank = 1; rank < ranks; rank++) {
        struct spent spent = all[rank].spent[method];
        sum.calls += spent.calls;
        sum.bytes += spent.bytes;
        if (spent.nanoseconds > sum.nanoseconds) sum.nanoseconds = spent.nanoseconds;
    }
    return sum;
}

/* Nanoseconds for 16 MiB. */
static int64_t cost_of(struct spent spent) {
    int64_t bytes = spent.bytes + spent.calls * CALL_BYTES, cost;
    if (__builtin_mul_overflow(spent.nanoseconds, (int64_t)16 << 20, &cost)) cost = INT64_MAX;
    return cost / bytes + 1;
}

static void learn(struct rule *rule, struct spent spent, enum method method) {
    if (spent.calls == 0) return;
    struct of_size *size = &rule->sizes[size_of(spent.bytes / spent.calls)];
    size->costs[method][size->known[method]++ % COSTS] = cost_of(spent);
}

/* The median of the last costs, the lower of two; 0 if there is none. */
static int64_t usual_cost(const struct of_size *size, enum method method) {
    int64_t sorted[COSTS];
    int count = 0, known = size->known[method] < COSTS ? (int)size->known[method] : COSTS;
    for (; count < known; count++) {
        int place = count;
        for (; place > 0 && sorted[place - 1] > size->costs[method][count]; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = size->costs[method][count];
    }
    return count ? sorted[(count - 1) / 2] : 0;
}

/* Invariant 3. If both methods cost the same, a probe costs nothing, and turns stay short. */
static int64_t favours_most(int64_t faster, int64_t slower, int64_t calls) {
    int64_t most = (slower - faster) / (faster / (LOSS * calls) + 1);
    return most < FAVOURS_LEAST ? FAVOURS_LEAST : most > FAVOURS_MOST ? FAVOURS_MOST : most;
}

/* Ranks drift apart in calls alone, and wait for each other in the first call together, which is
 * not measured. */
static int64_t calls_of_probe(const struct rule *rule, enum method method) {
    return rule->probe + (method == TOGETHER);
}

/* Chooses the favoured method of the next turn, and its number of calls: more each time that the
 * same method wins again. */
static void favour(struct rule *rule, struct of_size *size, int64_t bytes) {
    int64_t alone = usual_cost(size, ALONE), together = usual_cost(size, TOGETHER);
    rule->probe = bytes < LONG_BYTES ? PROBE_CALLS : 1;
    if (alone == 0 || together == 0) {
        size->favoured = bytes < SMALL_BYTES ? ALONE : TOGETHER;
        size->favours = FAVOURS_FIRST;
        return;
    }
    enum method faster = alone <= together ? ALONE : TOGETHER;
    int64_t cost = faster == ALONE ? alone : together, other = faster == ALONE ? together : alone;
    int is_clear = other / CLEARLY >= cost;
    if (is_clear) rule->probe = 1;
    int64_t favours =
        faster == size->favoured ? size->favours * (is_clear ? 4 : 2) : size->favours / 4;
    int64_t most = favours_most(cost, other, calls_of_probe(rule, !faster));
    size->favoured = faster;
    size->favours = favours < FAVOURS_FIRST ? FAVOURS_FIRST : favours > most ? most : favours;
}

static void begin_turn(struct rule *rule, int64_t bytes) {
    rule->size = size_of(bytes);
    rule->other_size = 0;
    struct of_size *size = &rule->sizes[rule->size];
    favour(rule, size, bytes);
    rule->left[size->favoured] = size->favours;
    rule->left[!size->favoured] = calls_of_probe(rule, !size->favoured);
    memset(rule->mine, 0, sizeof rule->mine);
}

/* The mean number of bytes per call and rank: in the turn that has ended, or in this call if there
 * are no reports. */
static int64_t mean_bytes(const struct spent over[2], int64_t asked) {
    int64_t calls = over[ALONE].calls + over[TOGETHER].calls;
    return calls ? (over[ALONE].bytes + over[TOGETHER].bytes) / calls : asked;
}

void rule_update(struct rule *rule, const struct report *all, int ranks) {
    int64_t asked = 0;
    for (int rank = 0; rank < ranks; rank++) asked += all[rank].asked / ranks;
    rule->other_size = size_of(asked) == rule->size ? 0 : rule->other_size + 1;
    int is_over = rule->left[TOGETHER] == 0, is_other_size = rule->other_size >= OTHER_SIZE_CALLS;
    if (is_over || is_other_size) {
        struct spent over[2] = {of_all(all, ranks, ALONE), of_all(all, ranks, TOGETHER)};
        for (int method = ALONE; method <= TOGETHER; method++) learn(rule, over[method], method);
        begin_turn(rule, is_other_size ? asked : mean_bytes(over, asked));
    }
    rule->left[TOGETHER]--;
}
