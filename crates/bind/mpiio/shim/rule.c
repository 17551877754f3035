/* How ranks learn which way of collective calls is the faster: rule.h. Integers alone, so that all ranks come to the same. */
#include "rule.h"

#include <string.h>

enum {
    /* Below this a call of a rank is small: the exchange is guessed to cost more than the daemons save, until it is measured. */
    SMALL_BYTES = 128 << 10,
    /* A call costs as much as this many bytes more than it moves: so calls of unlike sizes can be compared. */
    CALL_BYTES = 64 << 10,
    /* Calls of the way that is found slower, in a turn: two, where one is so short that a moment's load is all of it, and the ways are close. */
    PROBE_CALLS = 2,
    LONG_BYTES = 512 << 10,
    /* Calls of the favoured way in a turn: at first, and at most. */
    FAVOURS_FIRST = 4,
    FAVOURS_LEAST = 16,
    FAVOURS_MOST = 4096,
    /* So much slower is clear: one call shows it, and a turn grows to four times as many. */
    CLEARLY = 2,
    /* What the slower way may cost more is a LOSSth of a turn. */
    LOSS = 50,
    /* So many calls in a row of another size end a turn. */
    STRANGE_CALLS = 4,
};

void rule_reset(struct rule *rule) { memset(rule, 0, sizeof *rule); }

/* By powers of two of a rank's mean. */
static int size_of(int64_t bytes) {
    int size = bytes > 0 ? 64 - __builtin_clzll((unsigned long long)bytes) : 0;
    return size < SIZES ? size : SIZES - 1;
}

/* What one call of a way may be measured by: the last `probe` calls of a turn, of both ways alike. A mean of many calls and one of two do
 * not compare where every tenth call meets another program's load. */
static int is_measured(const struct rule *rule, enum who who) { return rule->left[who] < rule->probe; }

enum who rule_next(struct rule *rule) {
    if (rule->left[TOGETHER] > 0 || rule->left[ALONE] == 0) return TOGETHER;
    rule->left[ALONE]--;
    return ALONE;
}

struct told rule_tell(const struct rule *rule, int64_t asked) {
    return (struct told){asked, {rule->mine[ALONE], rule->mine[TOGETHER]}};
}

void rule_spend(struct rule *rule, enum who who, int64_t bytes, int64_t nanoseconds) {
    if (!is_measured(rule, who)) return;
    struct spent *mine = &rule->mine[who];
    mine->calls++;
    mine->bytes += bytes;
    mine->nanoseconds += nanoseconds;
}

/* What all ranks' calls of a way took: as long as the slowest's. A rank that waits for others in an exchange counts, since it waits for those
 * whom the exchange has kept from a processor: the least of all ranks hides that. */
static struct spent of_all(const struct told *all, int ranks, enum who who) {
    struct spent sum = all[0].spent[who];
    for (int rank = 1; rank < ranks; rank++) {
        struct spent spent = all[rank].spent[who];
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

static void learn(struct rule *rule, struct spent spent, enum who who) {
    if (spent.calls == 0) return;
    struct of_size *size = &rule->sizes[size_of(spent.bytes / spent.calls)];
    size->costs[who][size->known[who]++ % COSTS] = cost_of(spent);
}

/* The median of the last costs, the lower one of two; 0 where there is none. */
static int64_t usual_cost(const struct of_size *size, enum who who) {
    int64_t sorted[COSTS];
    int count = 0, known = size->known[who] < COSTS ? (int)size->known[who] : COSTS;
    for (; count < known; count++) {
        int place = count;
        for (; place > 0 && sorted[place - 1] > size->costs[who][count]; place--) sorted[place] = sorted[place - 1];
        sorted[place] = size->costs[who][count];
    }
    return count ? sorted[(count - 1) / 2] : 0;
}

/* Invariant 3; where both cost the same a probe costs nothing, and turns stay short. */
static int64_t favours_most(int64_t faster, int64_t slower, int64_t calls) {
    int64_t most = (slower - faster) / (faster / (LOSS * calls) + 1);
    return most < FAVOURS_LEAST ? FAVOURS_LEAST : most > FAVOURS_MOST ? FAVOURS_MOST : most;
}

/* Ranks that went alone have drifted apart, and wait for each other in the first call together, which is not measured. */
static int64_t calls_of_probe(const struct rule *rule, enum who who) { return rule->probe + (who == TOGETHER); }

/* Which way is favoured in the turn that begins, and with how many calls: more each time that it is the same again. */
static void favour(struct rule *rule, struct of_size *size, int64_t bytes) {
    int64_t alone = usual_cost(size, ALONE), together = usual_cost(size, TOGETHER);
    rule->probe = bytes < LONG_BYTES ? PROBE_CALLS : 1;
    if (alone == 0 || together == 0) {
        size->favoured = bytes < SMALL_BYTES ? ALONE : TOGETHER;
        size->favours = FAVOURS_FIRST;
        return;
    }
    enum who faster = alone <= together ? ALONE : TOGETHER;
    int64_t cost = faster == ALONE ? alone : together, other = faster == ALONE ? together : alone;
    int is_clear = other / CLEARLY >= cost;
    if (is_clear) rule->probe = 1;
    int64_t favours = faster == size->favoured ? size->favours * (is_clear ? 4 : 2) : size->favours / 4;
    int64_t most = favours_most(cost, other, calls_of_probe(rule, !faster));
    size->favoured = faster;
    size->favours = favours < FAVOURS_FIRST ? FAVOURS_FIRST : favours > most ? most : favours;
}

static void begin_turn(struct rule *rule, int64_t bytes) {
    rule->size = size_of(bytes);
    rule->strange = 0;
    struct of_size *size = &rule->sizes[rule->size];
    favour(rule, size, bytes);
    rule->left[size->favoured] = size->favours;
    rule->left[!size->favoured] = calls_of_probe(rule, !size->favoured);
    memset(rule->mine, 0, sizeof rule->mine);
}

/* What a call of a rank asks for on average: in the turn that is over, or in this call where it tells nothing. */
static int64_t mean_bytes(const struct spent over[2], int64_t asked) {
    int64_t calls = over[ALONE].calls + over[TOGETHER].calls;
    return calls ? (over[ALONE].bytes + over[TOGETHER].bytes) / calls : asked;
}

void rule_hear(struct rule *rule, const struct told *all, int ranks) {
    int64_t asked = 0;
    for (int rank = 0; rank < ranks; rank++) asked += all[rank].asked / ranks;
    rule->strange = size_of(asked) == rule->size ? 0 : rule->strange + 1;
    int is_over = rule->left[TOGETHER] == 0, is_strange = rule->strange >= STRANGE_CALLS;
    if (is_over || is_strange) {
        struct spent over[2] = {of_all(all, ranks, ALONE), of_all(all, ranks, TOGETHER)};
        for (int who = ALONE; who <= TOGETHER; who++) learn(rule, over[who], who);
        begin_turn(rule, is_strange ? asked : mean_bytes(over, asked));
    }
    rule->left[TOGETHER]--;
}
