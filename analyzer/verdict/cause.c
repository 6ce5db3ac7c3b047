/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the blamed devices say of themselves: the named cause beside a verdict.
 *
 * Clocks, throttling, temperature, PCIe, NVLink, memory errors and port
 * counters are no evidence for a verdict: many a throttled GPU slows nobody
 * down.  Here the verdict stands already; the readings of its culprits in its
 * span of time are held against those of ranks that are not blamed, or, where
 * all ranks slowed down, against their own before.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/health.h"
#include "analyzer/stats/stats.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"

#define SUSPECTS_MAX 16
#define PEERS_MAX 15
#define LINES_MAX 8
#define COUNTER_FACTOR 10 /* times what the peers count */

enum topic { T_COMPUTE = 1, T_NVLINK = 2, T_PCIE = 4, T_PORT = 8, T_ERROR = 16 };
enum role {
    R_PLAIN,
    R_REASON, /* named with the clock that it lowers, else by itself */
    R_CONTEXT /* named with the clock only: a hot GPU is not yet a slow one */
};

static const struct metric {
    struct argus_health_want want;
    int topics;
    enum role role;
    int side;     /* 1: more is worse, -1: less is */
    double floor; /* least difference that counts */
    double part;  /* ... and as a share of the reference */
    const char *unit;
    const char *words;
} metrics[] = {
#define GAUGE(name)                                                                                \
    {                                                                                              \
        name, ARGUS_HEALTH_GAUGE                                                                   \
    }
#define COUNTER(name)                                                                              \
    {                                                                                              \
        name, ARGUS_HEALTH_COUNTER                                                                 \
    }
    {GAUGE("gpu_clock_sm_mhz"), T_COMPUTE, R_PLAIN, -1, 15, 0.02, "MHz", "clocks"},
    {GAUGE("gpu_clock_mem_mhz"), T_COMPUTE, R_PLAIN, -1, 15, 0.02, "MHz", "memory clock"},
    {GAUGE("gpu_throttle_hw_thermal"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share",
     "HW thermal slowdown"},
    {GAUGE("gpu_throttle_sw_thermal"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share",
     "SW thermal slowdown"},
    {GAUGE("gpu_throttle_hw_power_brake"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share",
     "HW power brake"},
    {GAUGE("gpu_throttle_sw_power_cap"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share", "SW power cap"},
    {GAUGE("gpu_throttle_hw_slowdown"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share", "HW slowdown"},
    {GAUGE("gpu_throttle_clocks_setting"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share",
     "clocks set by somebody"},
    {GAUGE("gpu_throttle_sync_boost"), T_COMPUTE, R_REASON, 1, 0.2, 0, "share", "sync boost"},
    {GAUGE("gpu_power_limit_w"), T_COMPUTE, R_PLAIN, -1, 5, 0.02, "W", "power limit"},
    {GAUGE("gpu_temperature_c"), T_COMPUTE, R_CONTEXT, 1, 10, 0.1, "C", "temperature"},
    {COUNTER("gpu_ecc_corrected"), T_COMPUTE | T_ERROR, R_PLAIN, 1, 100, 0, "errors",
     "corrected memory errors"},
    {COUNTER("gpu_ecc_uncorrected"), T_ERROR, R_PLAIN, 1, 0.5, 0, "errors",
     "uncorrected memory errors"},
    {GAUGE("gpu_rows_remap_pending"), T_ERROR, R_PLAIN, 1, 0.5, 0, "rows",
     "memory rows that wait to be remapped"},
    {GAUGE("gpu_rows_remap_failed"), T_ERROR, R_PLAIN, 1, 0.5, 0, "rows",
     "memory rows that could not be remapped"},
    {{"gpu_xid", ARGUS_HEALTH_EVENT}, T_ERROR, R_PLAIN, 1, 0.5, 0, "xid", "XID error"},
    {GAUGE("gpu_pcie_width"), T_PCIE, R_PLAIN, -1, 0.5, 0, "lanes", "PCIe width"},
    {GAUGE("gpu_pcie_generation"), T_PCIE, R_PLAIN, -1, 0.5, 0, "generation", "PCIe generation"},
    {COUNTER("gpu_pcie_replays"), T_PCIE, R_PLAIN, 1, 10, 0, "replays", "PCIe replays"},
    {GAUGE("gpu_nvlinks_active"), T_NVLINK, R_PLAIN, -1, 0.5, 0, "links", "active NVLinks"},
    {COUNTER("gpu_nvlink_replays"), T_NVLINK, R_PLAIN, 1, 10, 0, "replays", "NVLink replays"},
    {COUNTER("gpu_nvlink_recoveries"), T_NVLINK, R_PLAIN, 1, 0.5, 0, "recoveries",
     "NVLink recoveries"},
    {COUNTER("gpu_nvlink_crc_flit_errors"), T_NVLINK, R_PLAIN, 1, 10, 0, "errors",
     "NVLink CRC errors"},
    {COUNTER("gpu_nvlink_crc_data_errors"), T_NVLINK, R_PLAIN, 1, 10, 0, "errors",
     "NVLink CRC errors (data)"},
    {GAUGE("nic_rate_gbps"), T_PORT, R_PLAIN, -1, 0.5, 0.05, "Gb/s", "port rate"},
    {GAUGE("nic_port_active"), T_PORT, R_PLAIN, -1, 0.02, 0, "share", "time with the port up"},
    {COUNTER("nic_port_rcv_errors"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "receive errors"},
    {COUNTER("nic_symbol_error"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "symbol errors"},
    {COUNTER("nic_link_downed"), T_PORT, R_PLAIN, 1, 0.5, 0, "times", "link down"},
    {COUNTER("nic_link_error_recovery"), T_PORT, R_PLAIN, 1, 0.5, 0, "times", "link recoveries"},
    {COUNTER("nic_local_link_integrity_errors"), T_PORT, R_PLAIN, 1, 10, 0, "errors",
     "link integrity errors"},
    {COUNTER("nic_port_xmit_discards"), T_PORT, R_PLAIN, 1, 10, 0, "packets", "discarded packets"},
    {COUNTER("nic_out_of_sequence"), T_PORT, R_PLAIN, 1, 100, 0, "packets",
     "packets out of sequence"},
    {COUNTER("nic_packet_seq_err"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "sequence errors"},
    {COUNTER("nic_local_ack_timeout_err"), T_PORT, R_PLAIN, 1, 0.5, 0, "errors", "ACK timeouts"},
    {COUNTER("nic_rnr_nak_retry_err"), T_PORT, R_PLAIN, 1, 0.5, 0, "errors", "RNR retries"},
    {COUNTER("nic_rp_cnp_handled"), T_PORT, R_PLAIN, 1, 1000, 0, "packets",
     "congestion notifications"},
    {COUNTER("nic_roce_slow_restart"), T_PORT, R_PLAIN, 1, 100, 0, "times", "slow restarts"},
    {COUNTER("nic_rx_icrc_encapsulated"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "ICRC errors"},
    {COUNTER("nic_rx_errors"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "receive errors"},
    {COUNTER("nic_tx_errors"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "transmit errors"},
    {COUNTER("nic_rx_crc_errors"), T_PORT, R_PLAIN, 1, 10, 0, "errors", "CRC errors"},
    {COUNTER("nic_carrier_changes"), T_PORT, R_PLAIN, 1, 0.5, 0, "times", "carrier changes"},
};
#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

struct readings {
    int rank; /* index */
    struct argus_health_reading *items;
    size_t n;
};

struct inquiry {
    const struct argus_model *m;
    const struct argus_evidence *e;
    struct argus_verdict *v;
    struct argus_health_want want[METRICS];
    int topics;
    int past; /* reference: the rank's own readings before the onset */
    struct readings peers[PEERS_MAX];
    size_t n_peers;
    size_t lines;
};

static int topics_of(const struct argus_evidence *e)
{
    switch (e->kind) {
    case ARGUS_VERDICT_COMPUTE_STRAGGLER:
        return T_COMPUTE | T_ERROR;
    case ARGUS_VERDICT_UNIFORM_SLOWDOWN:
        return e->informative ? 0 : T_COMPUTE;
    case ARGUS_VERDICT_SLOW_LINK:
        if (e->link && !strcmp(e->link->scope, "pcie"))
            return T_PCIE | T_ERROR;
        return (e->link && !strcmp(e->link->scope, "gpu") ? T_NVLINK : T_PORT) | T_PCIE | T_ERROR;
    case ARGUS_VERDICT_HOST_STALL:
    case ARGUS_VERDICT_DATA_STALL:
    case ARGUS_VERDICT_ALLOCATOR_STALL:
        return T_ERROR;
    default:
        return 0;
    }
}

/* Times of common steps first..last-1 on a rank's clock; -1: it has none of them. */
static int span_of(const struct argus_model *m, int rank, int first, int end, int64_t *from,
                   int64_t *to)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    int any = 0;

    for (int k = first; k < end; k++) {
        int row = argus_rank_row(r, k);
        float d = argus_rank_col(r, ARGUS_COL_DURATION, k);

        if (row < 0)
            continue;
        if (!any++)
            *from = r->start[row];
        *to = r->start[row] + (isnan(d) ? 0 : (int64_t)d);
    }
    return any ? 0 : -1;
}

/* A timeline that cannot be read again says nothing; no memory is an error. */
static int ask(const struct inquiry *q, int rank, int before, struct readings *out)
{
    const struct argus_evidence *e = q->e;
    int first = e->onset == ARGUS_UNKNOWN ? 0 : e->onset;
    int end = e->recovered == ARGUS_UNKNOWN ? q->m->n_steps : e->recovered;
    struct argus_health_span span = {0, 0, 0};
    argus_error_t err;

    memset(out, 0, sizeof(*out));
    out->rank = rank;
    span.to_end = !before && end >= q->m->n_steps;
    if (span_of(q->m, rank, before ? 0 : first, before ? first : end, &span.from, &span.to))
        return 0;
    if (argus_model_health(q->m, (size_t)rank, &span, q->want, METRICS, &out->items, &out->n,
                           &err)) {
        free(out->items);
        out->items = NULL;
        out->n = 0;
    }
    return 0;
}

static int is_port(const struct argus_health_reading *r)
{
    return metrics[r->want].topics & T_PORT;
}

static const struct argus_health_reading *find(const struct readings *from,
                                               const struct argus_health_reading *like)
{
    for (size_t i = 0; i < from->n; i++)
        if (from->items[i].want == like->want &&
            (!is_port(like) || !strcmp(from->items[i].device, like->device)))
            return &from->items[i];
    return NULL;
}

/* What the same reading is elsewhere; NAN: nobody has it. */
static double reference(const struct inquiry *q, const struct argus_health_reading *r,
                        const struct readings *own_past, int rank)
{
    const struct argus_health_reading *other;
    double x[PEERS_MAX];
    size_t n = 0;

    if (q->past) {
        other = find(own_past, r);
        return other ? other->value : NAN;
    }
    for (size_t i = 0; i < q->n_peers; i++) {
        if (q->peers[i].rank == rank ||
            (is_port(r) && q->m->ranks[q->peers[i].rank].node == q->m->ranks[rank].node))
            continue;
        other = find(&q->peers[i], r);
        if (other)
            x[n++] = other->value;
        else if (q->peers[i].n && metrics[r->want].want.kind == ARGUS_HEALTH_EVENT)
            x[n++] = 0;
    }
    return argus_median_inplace(x, n);
}

static int unusual(const struct argus_health_reading *r, double reference)
{
    const struct metric *k = &metrics[r->want];
    double least = k->floor;

    if (isnan(reference) || isnan(r->value))
        return 0;
    if (k->want.kind == ARGUS_HEALTH_EVENT)
        return r->value != reference; /* what all have names no rank */
    if (k->want.kind == ARGUS_HEALTH_COUNTER)
        return r->value >= least && r->value > COUNTER_FACTOR * reference;
    if (k->part * fabs(reference) > least)
        least = k->part * fabs(reference);
    return k->side * (r->value - reference) > least;
}

static const char *who(const struct inquiry *q, const struct argus_health_reading *r, int rank,
                       char *text, size_t size)
{
    const struct argus_model_rank *k = &q->m->ranks[rank];

    if (is_port(r))
        snprintf(text, size, "port %s of %s", r->device, q->m->nodes[k->node]);
    else
        snprintf(text, size, "rank %d on %s (GPU %d)", k->rank, q->m->nodes[k->node],
                 k->local_rank);
    return text;
}

/* "SW thermal slowdown, SW power cap": of what lowers clocks more often than elsewhere. */
static void reasons_of(const struct inquiry *q, const struct readings *own,
                       const struct readings *past, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < own->n && at < size; i++) {
        const struct argus_health_reading *r = &own->items[i];

        if (metrics[r->want].role == R_REASON && unusual(r, reference(q, r, past, own->rank)))
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                                   metrics[r->want].words);
    }
}

static double gauge(const struct readings *own, const char *metric)
{
    for (size_t i = 0; i < own->n; i++)
        if (!strcmp(metrics[own->items[i].want].want.metric, metric))
            return own->items[i].value;
    return NAN;
}

static int say(struct inquiry *q, const struct readings *own, const struct readings *past,
               const struct argus_health_reading *r, double ref)
{
    const struct metric *k = &metrics[r->want];
    const char *peers = q->past ? "before" : "peers";
    char name[160], reasons[200], more[320] = "";
    double hot = gauge(own, "gpu_temperature_c");

    who(q, r, own->rank, name, sizeof(name));
    reasons_of(q, own, past, reasons, sizeof(reasons));
    if (!argus_verdict_add_evidence(q->v, k->want.metric, q->m->ranks[own->rank].rank,
                                    q->m->nodes[q->m->ranks[own->rank].node], r->value, ref,
                                    k->unit, is_port(r) ? r->device : k->words))
        return -1;
    q->lines++;
    if (k->want.kind == ARGUS_HEALTH_EVENT)
        return argus_verdict_add_explained(q->v, "likely cause: %s %.0f of %s", k->words, r->value,
                                           name);
    if (k->want.kind == ARGUS_HEALTH_COUNTER)
        return argus_verdict_add_explained(q->v,
                                           "likely cause: %.0f %s of %s in these steps, %s %.0f",
                                           r->value, k->words, name, peers, ref);
    if (k->role == R_REASON)
        return argus_verdict_add_explained(
            q->v, "likely cause: %s of %s for %.0f %% of the time, %s %.0f %%", k->words, name,
            100 * r->value, peers, 100 * ref);
    if (!strcmp(k->want.metric, "gpu_clock_sm_mhz")) {
        if (reasons[0] && !isnan(hot))
            snprintf(more, sizeof(more), " (%s, %.0f C)", reasons, hot);
        else if (reasons[0])
            snprintf(more, sizeof(more), " (%s)", reasons);
    }
    if (!strcmp(k->unit, "share"))
        return argus_verdict_add_explained(q->v, "likely cause: %s %.0f %%: %s, %s %.0f %%",
                                           k->words, 100 * r->value, name, peers, 100 * ref);
    return argus_verdict_add_explained(q->v, "likely cause: %s of %s at %.0f %s, %s %.0f%s",
                                       k->words, name, r->value, k->unit, peers, ref, more);
}

/* In the order of the table, so that what says most comes first. */
static int judge(struct inquiry *q, const struct readings *own, const struct readings *past,
                 int topics)
{
    int clock = 0;

    for (size_t w = 0; w < METRICS; w++) {
        if (!(metrics[w].topics & topics) || metrics[w].role == R_CONTEXT)
            continue;
        for (size_t i = 0; i < own->n && q->lines < LINES_MAX; i++) {
            const struct argus_health_reading *r = &own->items[i];
            double ref;

            if (r->want != (int)w || (metrics[w].role == R_REASON && clock))
                continue;
            ref = reference(q, r, past, own->rank);
            if (!unusual(r, ref))
                continue;
            clock |= w == 0;
            if (say(q, own, past, r, ref))
                return -1;
        }
    }
    return 0;
}

static int among(const int *list, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == rank)
            return 1;
    return 0;
}

/* Ranks to look at: the blamed; of a link that nobody is blamed for, its candidates. */
static size_t suspects_of(const struct inquiry *q, int *suspects)
{
    const struct argus_evidence *e = q->e;
    const int *from = e->n_ranks ? e->ranks : e->hit;
    size_t n = e->n_ranks ? e->n_ranks : e->n_hit, kept = 0;

    if (q->past) { /* all ranks: a few, evenly spread */
        for (size_t i = 0; i < q->m->n_ranks && kept < 4; i += 1 + q->m->n_ranks / 4)
            suspects[kept++] = (int)i;
        return kept;
    }
    if (!e->n_ranks && e->kind != ARGUS_VERDICT_SLOW_LINK)
        return 0;
    for (size_t i = 0; i < n && kept < SUSPECTS_MAX; i++)
        suspects[kept++] = from[i];
    return kept;
}

/* The ports of a node are in the timeline of its first rank. */
static int first_of_node(const struct argus_model *m, int rank)
{
    int best = rank;

    for (size_t i = 0; i < m->n_ranks; i++)
        if (m->ranks[i].node == m->ranks[rank].node &&
            m->ranks[i].local_rank < m->ranks[best].local_rank)
            best = (int)i;
    return best;
}

static int comparable(const struct inquiry *q, int rank, const int *suspects, size_t n)
{
    const struct argus_model_rank *a = &q->m->ranks[rank], *b = &q->m->ranks[suspects[0]];

    if (q->e->n_ranks && among(suspects, n, rank))
        return 0;
    return !strcmp(a->info.gpu_name, b->info.gpu_name) &&
           (q->e->kind != ARGUS_VERDICT_COMPUTE_STRAGGLER || a->peers == b->peers);
}

static int ask_peers(struct inquiry *q, const int *suspects, size_t n)
{
    const struct argus_model *m = q->m;
    int ports = q->topics & T_PORT;
    size_t all = 0, at = 0;

    for (size_t i = 0; i < m->n_ranks; i++)
        all += (!ports || first_of_node(m, (int)i) == (int)i) && comparable(q, (int)i, suspects, n);
    for (size_t i = 0; i < m->n_ranks && q->n_peers < PEERS_MAX; i++) {
        if ((ports && first_of_node(m, (int)i) != (int)i) || !comparable(q, (int)i, suspects, n))
            continue;
        /* evenly spread over those that there are */
        if (all <= PEERS_MAX || at * PEERS_MAX / all >= q->n_peers)
            if (ask(q, (int)i, 0, &q->peers[q->n_peers++]))
                return -1;
        at++;
    }
    return 0;
}

int argus_cause(const struct argus_model *m, const struct argus_evidence *e,
                struct argus_verdict *v)
{
    struct inquiry q = {.m = m, .e = e, .v = v, .topics = topics_of(e)};
    int suspects[2 * SUSPECTS_MAX];
    size_t n, named;
    int rc = 0;

    if (!q.topics)
        return 0;
    for (size_t i = 0; i < METRICS; i++)
        q.want[i] = metrics[i].want;
    q.past = e->kind == ARGUS_VERDICT_UNIFORM_SLOWDOWN;
    if (q.past && e->onset <= 0)
        return 0;
    named = n = suspects_of(&q, suspects);
    for (size_t i = 0; (q.topics & T_PORT) && i < named; i++) {
        int first = first_of_node(m, suspects[i]);

        if (!among(suspects, n, first))
            suspects[n++] = first;
    }
    if (!n || (!q.past && ask_peers(&q, suspects, n)))
        rc = n ? -1 : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct readings own, past = {0};

        rc = ask(&q, suspects[i], 0, &own);
        if (!rc && q.past)
            rc = ask(&q, suspects[i], 1, &past);
        if (!rc)
            rc = judge(&q, &own, &past, i < named ? q.topics : T_PORT);
        free(own.items);
        free(past.items);
    }
    for (size_t i = 0; i < q.n_peers; i++)
        free(q.peers[i].items);
    return rc;
}
