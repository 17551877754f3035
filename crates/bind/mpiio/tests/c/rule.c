/* The rule of `auto` without MPI: `rule NAME`. Each rank has a rule. Ranks make calls in a model
 * that defines the cost of a call, and exchange the same reports as the shim. */
#include "../../shim/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static struct rule rules[RANKS];

#define IS(what) is(what, #what, __LINE__)

static void is(int true, const char *what, int line) {
    if (true) return;
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    exit(1);
}

static unsigned random_below(unsigned end) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % end;
}

/* The cost of a call with each method, in nanoseconds: a fixed part, and a part for each 64 KiB. */
struct world {
    int64_t each[2], move[2];
    /* This many of a hundred calls of a rank take this much longer, for one rank or in a call
     * together. And one rank is this much later than all others in the first call together after
     * calls alone. */
    unsigned stalls;
    int64_t stall;
    int late;
    int64_t later;
};

static int64_t takes(const struct world *world, enum method method, int64_t bytes) {
    int64_t ideal = world->each[method] + world->move[method] * bytes / 65536;
    int stalls = 0;
    for (int rank = 0; rank < (method == TOGETHER ? RANKS : 1); rank++)
        stalls |= random_below(100) < world->stalls;
    return ideal + ideal * random_below(20) / 100 + stalls * world->stall;
}

/* One call of all ranks. Returns its method, which all ranks agree on. */
static enum method call(const struct world *world, int64_t bytes) {
    static enum method before;
    struct report reports[RANKS];
    enum method method = rule_next(&rules[0]);
    for (int rank = 1; rank < RANKS; rank++) IS(rule_next(&rules[rank]) == method);
    for (int rank = 0; rank < RANKS; rank++) reports[rank] = rule_report(&rules[rank], bytes);
    int64_t together = takes(world, TOGETHER, bytes);
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t waits = before == ALONE && rank != world->late ? world->later : 0;
        if (method == TOGETHER) rule_update(&rules[rank], reports, RANKS);
        rule_measure(&rules[rank], method, bytes,
                     method == TOGETHER ? together + waits : takes(world, method, bytes));
    }
    return before = method;
}

struct made {
    int64_t by[2], nanoseconds;
};

/* Makes this many calls. Counts those of each method, and their cost without random stalls. */
static struct made calls(const struct world *world, int64_t bytes, int count) {
    struct made made = {0};
    while (count-- > 0) {
        enum method method = call(world, bytes);
        made.by[method]++;
        made.nanoseconds += world->each[method] + world->move[method] * bytes / 65536;
    }
    return made;
}

static int64_t best(const struct world *world, int64_t bytes, int count) {
    int64_t alone = world->each[ALONE] + world->move[ALONE] * bytes / 65536;
    int64_t together = world->each[TOGETHER] + world->move[TOGETHER] * bytes / 65536;
    return count * (alone < together ? alone : together);
}

static void begin(void) {
    for (int rank = 0; rank < RANKS; rank++) rule_reset(&rules[rank]);
}

/* Small calls are faster alone, large ones together: by several ratios. */
static const struct world USUAL = {.each = {20000, 60000}, .move = {45000, 20000}};

static void same(void) {
    struct world busy = USUAL;
    busy.stalls = 20;
    busy.stall = 4000000;
    begin();
    for (int at = 0; at < 20000; at++) {
        call(&busy, random_below(5) ? 65536 : random_below(1 << 24));
        struct rule first = rules[0];
        for (int rank = 1; rank < RANKS; rank++) {
            struct rule other = rules[rank];
            memcpy(other.mine, first.mine, sizeof other.mine);
            IS(!memcmp(&first, &other, sizeof first));
        }
    }
}

static void faster(void) {
    for (int64_t bytes = 4096; bytes <= 16 << 20; bytes *= 4)
        for (int tenths = 2; tenths <= 50; tenths += 3) {
            /* A call together takes this many tenths of a call alone. */
            struct world world = {.each = {50000, 5000 * tenths}, .move = {40000, 4000 * tenths}};
            begin();
            int64_t learning = calls(&world, bytes, 1000).nanoseconds,
                    later = calls(&world, bytes, 4000).nanoseconds;
            IS(learning * 100 <= best(&world, bytes, 1000) * 110);
            IS(later * 100 <= best(&world, bytes, 4000) * 104);
        }
}

static void probes(void) {
    begin();
    calls(&USUAL, 4096, 2000);
    for (int64_t bytes = 4096; bytes <= 16 << 20; bytes <<= 12) {
        calls(&USUAL, bytes, 4000);
        struct made made = calls(&USUAL, bytes, 10000);
        /* No method is forgotten, and the slower one has no more than its share of the cost. */
        IS(made.by[ALONE] >= 15 && made.by[TOGETHER] >= 15);
        IS(made.nanoseconds * 100 <= best(&USUAL, bytes, 10000) * 103);
    }
    /* Also if it is very slow: more polling ranks than processors. */
    static const struct world CROWDED = {.each = {50000, 1500000}, .move = {20000, 20000}};
    begin();
    calls(&CROWDED, 4096, 4000);
    IS(calls(&CROWDED, 4096, 20000).nanoseconds * 100 <= best(&CROWDED, 4096, 20000) * 103);
}

static void sizes(void) {
    begin();
    calls(&USUAL, 4096, 2000);
    for (int turn = 0; turn < 4; turn++) {
        int64_t bytes = turn % 2 ? 4096 : 4 << 20;
        /* The first calls may be in a turn of the other size, at most to its end. */
        calls(&USUAL, bytes, 1100);
        IS(calls(&USUAL, bytes, 1000).nanoseconds * 100 <= best(&USUAL, bytes, 1000) * 105);
    }
    /* If the ranks exchange anyway, another size is noticed after a few calls. */
    begin();
    calls(&USUAL, 4 << 20, 2000);
    calls(&USUAL, 4096, 60);
    IS(calls(&USUAL, 4096, 100).by[ALONE] >= 70);
}

/* The cost of calls changes at some time: another program has started. */
static void changes(void) {
    struct world other = {.each = {60000, 20000}, .move = {20000, 45000}};
    begin();
    for (int turn = 0; turn < 4; turn++) {
        const struct world *world = turn % 2 ? &other : &USUAL;
        calls(world, 65536 * 16, 3000);
        IS(calls(world, 65536 * 16, 1000).nanoseconds * 100 <= best(world, 65536 * 16, 1000) * 105);
    }
}

/* Occasional stalls, equal for both methods, hide no difference. */
static void busy(void) {
    for (int together = 30000; together <= 120000; together += 90000) {
        struct world world = {.each = {60000, together}, .stalls = 2, .stall = 4000000};
        begin();
        calls(&world, 65536, 2000);
        IS(calls(&world, 65536, 10000).by[together < 60000 ? TOGETHER : ALONE] >= 8000);
    }
}

/* One rank falls behind in calls alone, and the others wait for it once: that is not a cost of
 * calls together. */
static void waiting(void) {
    struct world world = {.each = {60000, 30000}, .late = 2, .later = 500000};
    begin();
    calls(&world, 65536, 1000);
    IS(calls(&world, 65536, 1000).by[TOGETHER] >= 900);
}

static void first(void) {
    begin();
    IS(call(&USUAL, 4096) == TOGETHER);
    IS(calls(&USUAL, 4096, 6).by[ALONE] == 4);
    calls(&USUAL, 4096, 100);
    begin();
    IS(call(&USUAL, 1 << 20) == TOGETHER);
    IS(calls(&USUAL, 1 << 20, 4).by[TOGETHER] == 3);
    /* Calls of 0 bytes, and of the largest size. */
    begin();
    calls(&USUAL, 0, 1000);
    for (int at = 0; at < 1000; at++) call(&USUAL, at % 2 ? INT64_MAX / 65536 / 50000 : 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"same", same},       {"faster", faster}, {"probes", probes},   {"sizes", sizes},
                 {"changes", changes}, {"busy", busy},     {"waiting", waiting}, {"first", first}};
    for (size_t at = 0; argc == 2 && at < sizeof tests / sizeof *tests; at++) {
        if (strcmp(tests[at].name, argv[1])) continue;
        tests[at].run();
        printf("%s ok\n", argv[1]);
        return 0;
    }
    return 2;
}
