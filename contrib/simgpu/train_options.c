/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simtrain.h"

static const char help[] =
    "Usage: simtrain [OPTION]... [FAULT]...\n"
    "\n"
    "One rank of a simulated training job on the stand-in GPU.  No real GPU is used and\n"
    "nothing is trained: kernels and transfers are times on a virtual clock.  The ranks of a\n"
    "run meet over TCP on loopback and synchronise as collectives do.\n"
    "Rank and world come from RANK and WORLD_SIZE, ARGUS_RANK and ARGUS_WORLD, or\n"
    "SLURM_PROCID and SLURM_NTASKS; the node from ARGUS_NODE or SLURMD_NODENAME.\n"
    "\n"
    "Model\n"
    "  --steps N           steps (60)\n"
    "  --layers N          transformer layers of the whole model (12)\n"
    "  --buckets N         gradient buckets (4)\n"
    "  --bucket-mb N       size of a bucket (48)\n"
    "  --microbatches N    microbatches a step (1; 4 with a pipeline)\n"
    "  --tp N --pp N --dp N --ep N   tensor, pipeline, data, expert parallel sizes;\n"
    "                      dp is world/(tp*pp) when not given, ep divides dp\n"
    "  --zero              reduce-scatter and all-gather instead of all-reduce\n"
    "  --seed N            seed of all noise (1)\n"
    "  --noise PCT         noise of a kernel and of a transfer, percent (1)\n"
    "\n"
    "Running\n"
    "  --spawn N           start N ranks here instead of being one\n"
    "  --ranks-per-node N  play nodes of N ranks, named node0, node1, ...\n"
    "  --pace X            virtual seconds a real second, 0: as fast as it goes (0)\n"
    "  --nvtx              push NVTX ranges: step, data, forward, backward, optimizer\n"
    "  --clock-offset nodeK:MS   that node's clock is MS ahead\n"
    "  --graphs            launch the layers as CUDA graphs\n"
    "  --autograd-thread   launch the backward pass from a second thread\n"
    "  --loaders N         fork N data loaders that live as long as the rank\n"
    "  --leave HOW         end by return (the default), _exit or abort\n"
    "  --reinit N          destroy and remake the communicators each N steps\n"
    "  --rendezvous FILE   where the ranks find each other (a name in TMPDIR)\n"
    "  --timeout S         how long to wait for the others (60)\n"
    "  --ignore-term       ignore SIGTERM\n"
    "  --quiet             print nothing but errors\n"
    "  --help\n"
    "\n"
    "Faults, repeatable; @A or @A-B appended: from step A (to step B), counted from 0.\n"
    "A time is a number with us, ms or s; F is a factor.\n"
    "  --slow-rank R:F             all compute of rank R takes F times as long\n"
    "  --slow-kernel R:PATTERN:F   its kernels of that name (a shell pattern)\n"
    "  --slow-link nodeK:F | rankR:F | A-B:F   transfers over the node's network, the\n"
    "                              rank's links, or between ranks A and B\n"
    "  --host-stall R:TIME[@everyN][@growing]  the host sleeps before the last bucket;\n"
    "                              'rotate' for R: another rank each time\n"
    "  --data-stall R:TIME[@everyN]   the host sleeps before the step's first copy\n"
    "  --jit R:TIME@S[,S...]       a kernel is compiled in step S and launched from then on\n"
    "  --alloc-stall R:TIME[@everyN]  cudaFree and cudaMalloc in the forward pass\n"
    "  --slow-stage S:F            pipeline stage S has F times the work\n"
    "  --imbalance R:F | rotate:F  rank R has F times the work: larger grids\n"
    "  --moe-hot R:F | rotate:F    rank R's experts get F times the tokens (needs --ep)\n"
    "  --copy-bound TIME           each step copies that long from the host, on all ranks\n"
    "  --slow-copy R:F             its copies from the host take F times as long\n"
    "  --extra-allreduce MB        one more exposed all-reduce a step\n"
    "  --barrier-work R:TIME[@everyN]  the host works before the last all-reduce of a step\n"
    "  --die R@S:SIGNAL            rank R raises SIGNAL (a number or KILL, TERM, ABRT, SEGV)\n"
    "                              in step S\n";

__attribute__((format(printf, 1, 2), noreturn)) static void usage(const char *format, ...)
{
    va_list args;

    fputs("simtrain: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nTry 'simtrain --help'.\n", stderr);
    exit(2);
}

static long number(const char *option, const char *text, long least, long most)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < least || n > most)
        usage("%s: '%s' is not a number from %ld to %ld", option, text, least, most);
    return n;
}

static double real(const char *option, const char *text)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || *end != '\0' || !(x >= 0) || x > 1e9)
        usage("%s: '%s' is not a number", option, text);
    return x;
}

static int64_t duration(const char *option, const char *text)
{
    char *end;
    double x = strtod(text, &end), unit = 0;

    if (strcmp(end, "us") == 0)
        unit = 1e3;
    else if (strcmp(end, "ms") == 0 || *end == '\0')
        unit = 1e6;
    else if (strcmp(end, "s") == 0)
        unit = 1e9;
    if (end == text || unit == 0 || !(x >= 0) || x * unit > 1e13)
        usage("%s: '%s' is not a time such as 200ms", option, text);
    return (int64_t)(x * unit);
}

static void step_range(const char *option, struct fault *f, const char *text)
{
    char *end;

    f->from = (int)strtol(text, &end, 10);
    f->to = INT_MAX;
    if (end != text && *end == '-')
        f->to = (int)number(option, end + 1, 0, INT_MAX);
    else if (end == text || *end != '\0')
        usage("%s: '@%s' is neither steps nor everyN nor growing", option, text);
    if (f->from < 0 || f->to < f->from)
        usage("%s: '@%s' is not a range of steps", option, text);
}

/* Cuts the "@..." parts off and reads them. */
static void qualifiers(const char *option, struct fault *f, char *text)
{
    char *part, *rest;

    strtok_r(text, "@", &rest);
    while ((part = strtok_r(NULL, "@", &rest))) {
        if (strncmp(part, "every", 5) == 0)
            f->every = (int)number(option, part + 5, 1, INT_MAX);
        else if (strcmp(part, "growing") == 0)
            f->growing = 1;
        else
            step_range(option, f, part);
    }
}

/* The text behind the next colon; the colon becomes an end. */
static char *cut(const char *option, char *text, const char *what)
{
    char *colon = strchr(text, ':');

    if (!colon || colon == text || !colon[1])
        usage("%s: %s expected, not '%s'", option, what, text);
    *colon = '\0';
    return colon + 1;
}

static int rank_or_rotate(const char *option, const char *text)
{
    if (strcmp(text, "rotate") == 0)
        return RANK_ROTATE;
    if (strcmp(text, "all") == 0)
        return RANK_ALL;
    return (int)number(option, text, 0, 1 << 20);
}

static void factor_for_rank(const char *option, struct fault *f, char *text)
{
    char *value = cut(option, text, "R:F");

    f->rank = rank_or_rotate(option, text);
    f->factor = real(option, value);
    if (f->factor <= 0)
        usage("%s: the factor must be above 0", option);
}

static void time_for_rank(const char *option, struct fault *f, char *text)
{
    char *value = cut(option, text, "R:TIME");
    char *growing = strstr(value, ":growing");

    if (growing) {
        *growing = '\0';
        f->growing = 1;
    }
    f->rank = rank_or_rotate(option, text);
    f->ns = duration(option, value);
}

static void slow_kernel(const char *option, struct fault *f, char *text)
{
    char *pattern = cut(option, text, "R:PATTERN:F");
    char *value = cut(option, pattern, "R:PATTERN:F");

    f->rank = rank_or_rotate(option, text);
    snprintf(f->text, sizeof(f->text), "%s", pattern);
    f->factor = real(option, value);
}

static void slow_link(const char *option, struct fault *f, char *text)
{
    char *value = cut(option, text, "nodeK:F, rankR:F or A-B:F");

    f->factor = real(option, value);
    snprintf(f->text, sizeof(f->text), "%s", text);
    f->target = LINK_NODE;
    if (sscanf(text, "rank%d", &f->rank) == 1) {
        f->target = LINK_RANK;
    } else if (strspn(text, "0123456789-") == strlen(text)) {
        if (sscanf(text, "%d-%d", &f->rank, &f->rank_b) != 2)
            usage("%s: '%s' is no pair of ranks", option, text);
        f->target = LINK_PAIR;
    }
}

static void jit(const char *option, struct fault *f, char *text)
{
    char *at = strchr(text, '@'), *part, *rest;

    if (!at)
        usage("%s: R:TIME@S expected, not '%s'", option, text);
    *at++ = '\0';
    time_for_rank(option, f, text);
    for (part = strtok_r(at, ",", &rest); part && f->step_count < MAX_FAULT_STEPS;
         part = strtok_r(NULL, ",", &rest))
        f->steps[f->step_count++] = (int)number(option, part, 0, INT_MAX);
}

static int signal_number(const char *option, const char *text)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {{"KILL", SIGKILL}, {"TERM", SIGTERM}, {"ABRT", SIGABRT},
                 {"SEGV", SIGSEGV}, {"INT", SIGINT},   {"BUS", SIGBUS}};

    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i].name) == 0)
            return names[i].number;
    return (int)number(option, text, 1, 64);
}

static void die(const char *option, struct fault *f, char *text)
{
    char *value = cut(option, text, "R@S:SIGNAL");
    char *at = strchr(text, '@');

    if (!at)
        usage("%s: R@S:SIGNAL expected, not '%s'", option, text);
    *at = '\0';
    f->rank = (int)number(option, text, 0, 1 << 20);
    f->from = (int)number(option, at + 1, 0, INT_MAX);
    f->signal = signal_number(option, value);
}

static const struct {
    const char *name;
    enum fault_kind kind;
    void (*parse)(const char *option, struct fault *f, char *text);
} fault_options[] = {
    {"slow-rank", FAULT_SLOW_RANK, factor_for_rank},
    {"slow-kernel", FAULT_SLOW_KERNEL, slow_kernel},
    {"slow-link", FAULT_SLOW_LINK, slow_link},
    {"host-stall", FAULT_HOST_STALL, time_for_rank},
    {"data-stall", FAULT_DATA_STALL, time_for_rank},
    {"jit", FAULT_JIT, jit},
    {"alloc-stall", FAULT_ALLOC_STALL, time_for_rank},
    {"slow-stage", FAULT_SLOW_STAGE, factor_for_rank},
    {"imbalance", FAULT_IMBALANCE, factor_for_rank},
    {"moe-hot", FAULT_MOE_HOT, factor_for_rank},
    {"copy-bound", FAULT_COPY_BOUND, NULL},
    {"extra-allreduce", FAULT_EXTRA_ALLREDUCE, NULL},
    {"barrier-work", FAULT_BARRIER_WORK, time_for_rank},
    {"slow-copy", FAULT_SLOW_COPY, factor_for_rank},
    {"die", FAULT_DIE, die},
};
#define FAULT_OPTIONS (int)(sizeof(fault_options) / sizeof(fault_options[0]))

static void add_fault(struct options *o, int which, const char *value)
{
    struct fault *f = &o->faults[o->fault_count];
    char option[32], text[256];

    snprintf(option, sizeof(option), "--%s", fault_options[which].name);
    if (o->fault_count == MAX_FAULTS)
        usage("more than %d faults", MAX_FAULTS);
    if (strlen(value) >= sizeof(text))
        usage("%s: value too long", option);
    strcpy(text, value);
    memset(f, 0, sizeof(*f));
    f->kind = fault_options[which].kind;
    f->to = INT_MAX;
    f->rank = RANK_ALL;
    f->factor = 1;
    if (f->kind != FAULT_JIT && f->kind != FAULT_DIE)
        qualifiers(option, f, text);
    if (fault_options[which].parse)
        fault_options[which].parse(option, f, text);
    else if (f->kind == FAULT_COPY_BOUND)
        f->ns = duration(option, text);
    else
        f->ns = number(option, text, 1, 1 << 20); /* MB */
    o->fault_count++;
}

int fault_active(const struct fault *f, int step)
{
    return step >= f->from && step <= f->to;
}

enum {
    OPT_STEPS = 1000,
    OPT_LAYERS,
    OPT_BUCKETS,
    OPT_BUCKET_MB,
    OPT_MICROBATCHES,
    OPT_TP,
    OPT_PP,
    OPT_DP,
    OPT_EP,
    OPT_ZERO,
    OPT_SEED,
    OPT_NOISE,
    OPT_SPAWN,
    OPT_RANKS_PER_NODE,
    OPT_PACE,
    OPT_NVTX,
    OPT_CLOCK_OFFSET,
    OPT_REINIT,
    OPT_GRAPHS,
    OPT_AUTOGRAD_THREAD,
    OPT_LOADERS,
    OPT_LEAVE,
    OPT_RENDEZVOUS,
    OPT_TIMEOUT,
    OPT_IGNORE_TERM,
    OPT_QUIET,
    OPT_HELP,
    OPT_FAULT
};

static const struct option plain_options[] = {
    {"steps", required_argument, NULL, OPT_STEPS},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"buckets", required_argument, NULL, OPT_BUCKETS},
    {"bucket-mb", required_argument, NULL, OPT_BUCKET_MB},
    {"microbatches", required_argument, NULL, OPT_MICROBATCHES},
    {"tp", required_argument, NULL, OPT_TP},
    {"pp", required_argument, NULL, OPT_PP},
    {"dp", required_argument, NULL, OPT_DP},
    {"ep", required_argument, NULL, OPT_EP},
    {"zero", no_argument, NULL, OPT_ZERO},
    {"seed", required_argument, NULL, OPT_SEED},
    {"noise", required_argument, NULL, OPT_NOISE},
    {"spawn", required_argument, NULL, OPT_SPAWN},
    {"ranks-per-node", required_argument, NULL, OPT_RANKS_PER_NODE},
    {"pace", required_argument, NULL, OPT_PACE},
    {"nvtx", no_argument, NULL, OPT_NVTX},
    {"clock-offset", required_argument, NULL, OPT_CLOCK_OFFSET},
    {"reinit", required_argument, NULL, OPT_REINIT},
    {"graphs", no_argument, NULL, OPT_GRAPHS},
    {"autograd-thread", no_argument, NULL, OPT_AUTOGRAD_THREAD},
    {"loaders", required_argument, NULL, OPT_LOADERS},
    {"leave", required_argument, NULL, OPT_LEAVE},
    {"rendezvous", required_argument, NULL, OPT_RENDEZVOUS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"ignore-term", no_argument, NULL, OPT_IGNORE_TERM},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"help", no_argument, NULL, OPT_HELP},
};
#define PLAIN_OPTIONS (int)(sizeof(plain_options) / sizeof(plain_options[0]))

static void clock_offset(struct options *o, const char *value)
{
    char *ms = strrchr(value, ':');
    char *end;

    if (!ms || (size_t)(ms - value) >= sizeof(o->clock_node) || !ms[1])
        usage("--clock-offset: nodeK:MS expected, not '%s'", value);
    memcpy(o->clock_node, value, (size_t)(ms - value));
    o->clock_offset = (int64_t)(strtod(ms + 1, &end) * 1e6);
    if (*end != '\0' && strcmp(end, "ms") != 0)
        usage("--clock-offset: '%s' is not a number", ms + 1);
}

static void take(struct options *o, int option, const char *name, const char *value)
{
    int *const numbers[] = {[OPT_STEPS - OPT_STEPS] = &o->steps,
                            [OPT_LAYERS - OPT_STEPS] = &o->layers,
                            [OPT_BUCKETS - OPT_STEPS] = &o->buckets,
                            [OPT_BUCKET_MB - OPT_STEPS] = &o->bucket_mb,
                            [OPT_MICROBATCHES - OPT_STEPS] = &o->microbatches,
                            [OPT_TP - OPT_STEPS] = &o->tp,
                            [OPT_PP - OPT_STEPS] = &o->pp,
                            [OPT_DP - OPT_STEPS] = &o->dp,
                            [OPT_EP - OPT_STEPS] = &o->ep};

    switch (option) {
    case OPT_ZERO:
        o->zero = 1;
        break;
    case OPT_SEED:
        o->seed = (uint64_t)number(name, value, 0, LONG_MAX);
        break;
    case OPT_NOISE:
        o->noise = real(name, value) / 100;
        break;
    case OPT_SPAWN:
        o->spawn = (int)number(name, value, 1, 4096);
        break;
    case OPT_RANKS_PER_NODE:
        o->ranks_per_node = (int)number(name, value, 1, 4096);
        break;
    case OPT_PACE:
        o->pace = real(name, value);
        break;
    case OPT_NVTX:
        o->nvtx = 1;
        break;
    case OPT_CLOCK_OFFSET:
        clock_offset(o, value);
        break;
    case OPT_REINIT:
        o->reinit_every = (int)number(name, value, 1, INT_MAX);
        break;
    case OPT_GRAPHS:
        o->graphs = 1;
        break;
    case OPT_AUTOGRAD_THREAD:
        o->autograd_thread = 1;
        break;
    case OPT_LOADERS:
        o->loaders = (int)number(name, value, 0, 64);
        break;
    case OPT_LEAVE:
        if (strcmp(value, "_exit") == 0)
            o->leave = LEAVE_EXIT_NOW;
        else if (strcmp(value, "abort") == 0)
            o->leave = LEAVE_ABORT;
        else if (strcmp(value, "return") != 0)
            usage("--leave: return, _exit or abort, not '%s'", value);
        break;
    case OPT_RENDEZVOUS:
        snprintf(o->rendezvous, sizeof(o->rendezvous), "%s", value);
        break;
    case OPT_TIMEOUT:
        o->timeout_s = (int)number(name, value, 1, 86400);
        break;
    case OPT_IGNORE_TERM:
        o->ignore_term = 1;
        break;
    case OPT_QUIET:
        o->quiet = 1;
        break;
    case OPT_HELP:
        fputs(help, stdout);
        exit(0);
    default:
        *numbers[option - OPT_STEPS] = (int)number(name, value, 1, 1 << 24);
    }
}

void options_parse(struct options *o, int argc, char **argv)
{
    struct option all[PLAIN_OPTIONS + FAULT_OPTIONS + 1] = {{0}};
    int c, index;

    memset(o, 0, sizeof(*o));
    o->steps = 60;
    o->layers = 12;
    o->buckets = 4;
    o->bucket_mb = 48;
    o->tp = o->pp = o->ep = 1;
    o->seed = 1;
    o->noise = 0.01;
    o->timeout_s = 60;
    memcpy(all, plain_options, sizeof(plain_options));
    for (int i = 0; i < FAULT_OPTIONS; i++)
        all[PLAIN_OPTIONS + i] =
            (struct option){fault_options[i].name, required_argument, NULL, OPT_FAULT + i};
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:", all, &index)) != -1) {
        if (c == '?' || c == ':')
            usage("%s '%s'", c == '?' ? "unknown option" : "value missing for", argv[optind - 1]);
        if (c >= OPT_FAULT)
            add_fault(o, c - OPT_FAULT, optarg);
        else
            take(o, c, all[index].name, optarg);
    }
    if (optind < argc)
        usage("unexpected argument '%s'", argv[optind]);
    if (o->microbatches == 0)
        o->microbatches = o->pp > 1 ? 4 : 1;
}
