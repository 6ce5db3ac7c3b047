/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline: one HDF5 file a rank.  Names, rows, units.  The manual is
 * argus-timeline(5); the code is analyzer/timeline/.
 *
 * Every row type below is written as an HDF5 compound whose members carry the
 * C names, at the C offsets, in the C types, so that h5dump and h5py need
 * nothing of ours.  Times are int64 ns, CLOCK_REALTIME; durations int64 ns.
 * Ids (string, class, comm) are row numbers in their dataset.
 */
#ifndef ARGUS_TIMELINE_H
#define ARGUS_TIMELINE_H

#include <stdint.h>

#define ARGUS_TIMELINE_FORMAT "argus-timeline"
#define ARGUS_TIMELINE_VERSION 1
#define ARGUS_TIMELINE_NAME "rank-%05d.h5" /* final name; ".open" is appended while it is written */
#define ARGUS_NONE 0xffffffffu             /* no class, no comm, no string */
#define ARGUS_STEP_NONE (-1)               /* outside every step */
#define ARGUS_WORLD_MAX (1 << 20)          /* ranks of a job; a file that claims more is refused */
/* Of times and durations, ns; so bounded, a start and a duration less another start fit in 64 bits. */
#define ARGUS_TIME_MIN (-(INT64_C(1) << 60))
#define ARGUS_TIME_MAX (INT64_C(3) << 60)

/* Datasets, in this order; argus_timeline_dataset_name() gives the name. */
enum argus_dataset {
    ARGUS_DS_STRINGS = 0,   /* "strings": uint8, a byte heap */
    ARGUS_DS_STRINGS_INDEX, /* "strings_index": argus_string_row */
    ARGUS_DS_COMMS,         /* "comms": argus_comm_row */
    ARGUS_DS_CLASSES,       /* "classes": argus_class_row */
    ARGUS_DS_STEPS,         /* "steps": argus_step_row */
    ARGUS_DS_STEP_COMM,     /* "step_comm": argus_step_comm_row */
    ARGUS_DS_CLUSTERS,      /* "clusters": argus_cluster_row */
    ARGUS_DS_EVENTS,        /* "events": argus_event_row */
    ARGUS_DS_MARKS,         /* "marks": argus_mark_row */
    ARGUS_DS_STACKS,        /* "stacks": argus_stack_row */
    ARGUS_DS_HEALTH,        /* "health": argus_health_row */
    ARGUS_DS_ANCHORS,       /* "anchors": argus_anchor_row */
    ARGUS_DS_GAPS,          /* "gaps": argus_gap_row */
    ARGUS_DS_COUNT
};

struct argus_string_row {
    uint64_t offset;
    uint32_t length;
    uint32_t pad;
};

struct argus_comm_row {
    uint64_t hash; /* equal on all members; 0: unknown communicator */
    uint32_t name; /* string id or ARGUS_NONE */
    uint32_t size; /* ranks in it; 0: unknown */
    uint32_t rank; /* ours in it */
    uint32_t nodes;
    uint32_t
        members; /* string id of "0,4,8,12" where the source knows the global ranks, else ARGUS_NONE */
    uint32_t flags;
};

/* What is comparable between ranks and between steps. */
enum argus_class_kind {
    ARGUS_CLASS_COMPUTE = 1, /* kernel: name, grid, block, stream */
    ARGUS_CLASS_COMM =
        2, /* communication kernel: comm, func, bytes, dtype, peer; name of the kernel */
    ARGUS_CLASS_COPY = 3,  /* copy or memset: func = copy kind, bytes */
    ARGUS_CLASS_GRAPH = 4, /* one launch of a CUDA graph (coarse option) */
    ARGUS_CLASS_OVERHEAD =
        5, /* host: CUPTI overhead, func = kind (4,5: JIT or lazy loading; 6: launch queue full) */
    ARGUS_CLASS_SYNC = 6,      /* host: synchronisation call */
    ARGUS_CLASS_ALLOC = 7,     /* host: cudaMalloc (func 1), cudaFree (func 2) */
    ARGUS_CLASS_PEER_WAIT = 8, /* network proxy: wait for `peer`, func = NCCL proxy state */
    ARGUS_CLASS_LAUNCH = 9     /* host: launch call (imports only) */
};

enum argus_family { /* what a compute kernel does, from its name; see argus_kernel_family() */
                    ARGUS_FAMILY_OTHER = 0,
                    ARGUS_FAMILY_GEMM = 1,
                    ARGUS_FAMILY_ATTENTION = 2,
                    ARGUS_FAMILY_ELEMENTWISE = 3, /* memory-bound */
                    ARGUS_FAMILY_NORM = 4,        /* memory-bound */
                    ARGUS_FAMILY_OPTIMIZER = 5,
                    ARGUS_FAMILY_EXPERT = 6, /* grouped GEMM of experts, dispatch, combine */
                    ARGUS_FAMILY_EMBEDDING = 7
};

#define ARGUS_CLASS_POOLED 0x1    /* stands for rare classes of its kind */
#define ARGUS_CLASS_UNMATCHED 0x2 /* communication kernel without metadata: bytes unknown */
#define ARGUS_CLASS_FORWARD 0x4   /* the name tells the phase: see argus_kernel_phase() */
#define ARGUS_CLASS_BACKWARD 0x8

struct argus_class_row {
    uint8_t kind;    /* enum argus_class_kind */
    uint8_t func;    /* enum argus_func of a collective; see kinds */
    uint8_t dtype;   /* enum argus_dtype */
    uint8_t family;  /* enum argus_family */
    uint32_t flags;  /* ARGUS_CLASS_* */
    uint32_t name;   /* string id */
    uint32_t stream; /* CUPTI stream id */
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t comm;  /* row of `comms` or ARGUS_NONE */
    int32_t peer;   /* rank within the communicator: peer or root; -1: none */
    uint64_t bytes; /* message bytes as the user passed them; 0: unknown */
};

/* Flags of a step. */
#define ARGUS_STEP_WARMUP 0x1    /* among the first: not compared */
#define ARGUS_STEP_GAP 0x2       /* touches a gap in the data */
#define ARGUS_STEP_KEPT 0x4      /* its events are in `events` */
#define ARGUS_STEP_SLOW 0x8      /* kept because it was slow */
#define ARGUS_STEP_MARKED 0x10   /* cut by marks, not by period */
#define ARGUS_STEP_RELEARNT 0x20 /* first step after the pattern changed */
#define ARGUS_STEP_PARTIAL 0x40  /* cut off by the end or the beginning of the data */

/* Busy times are unions of intervals within the step, so compute + exposed +
 * copy + idle == end - start. */
struct argus_step_row {
    int64_t start;
    int64_t end;
    int64_t compute;   /* some compute kernel runs */
    int64_t comm;      /* some communication kernel runs */
    int64_t exposed;   /* communication and no compute */
    int64_t copy;      /* copies and neither compute nor communication */
    int64_t idle;      /* nothing runs on the GPU */
    int64_t copy_busy; /* some copy runs, hidden or not */
    int64_t copy_bytes;
    int64_t head_idle;  /* idle from the start of the step to its first GPU work */
    int64_t gap;        /* longest idle interval */
    int64_t gap_offset; /* its start, from the start of the step */
    int64_t lead_idle;  /* idle directly before communication kernels, sum over the step */
    int64_t overhead;   /* CUPTI OVERHEAD: JIT and lazy loading */
    int64_t alloc;      /* cudaMalloc and cudaFree */
    int64_t forward;    /* compute within the phase; 0 when the phase is not known */
    int64_t backward;
    int64_t optimizer;
    uint64_t anchor_seq; /* sequence number, in anchor_comm, of the first collective of the step */
    uint32_t
        anchor_comm; /* row of `comms`: the largest communicator used in every step; ARGUS_NONE */
    int32_t step;    /* number, the same on all ranks of a synchronous job */
    uint32_t gap_class; /* class of the work that ended the longest gap */
    uint32_t kernels;
    uint32_t comms; /* communication kernels */
    uint32_t copies;
    uint32_t new_classes; /* classes first seen in this step */
    uint32_t flags;       /* ARGUS_STEP_* */
};

/* A step and a class of kind COMM, ALLOC, OVERHEAD or PEER_WAIT. */
struct argus_step_comm_row {
    int32_t step;
    uint32_t class_id;
    uint32_t count;
    uint32_t first_seq; /* sequence in the communicator of the first call of the step */
    int64_t sum;
    int64_t min;
    int64_t max;
    int64_t lead_idle; /* idle directly before these calls, sum */
};

/* Steps first_step..last_step, one class, one mode of its durations. */
struct argus_cluster_row {
    int32_t first_step;
    int32_t last_step; /* inclusive */
    uint32_t class_id;
    uint16_t cluster;  /* 0.. in order of duration */
    uint16_t clusters; /* how many this class has in this window */
    uint32_t count;
    uint32_t pad;
    int64_t p50;
    int64_t p99;
    int64_t sum;
    int64_t min;
    int64_t max;
};

struct argus_event_row {
    int64_t start;
    int64_t duration;
    uint32_t class_id;
    uint32_t stream;
    int32_t step;
    uint32_t seq; /* sequence in the communicator for kind COMM; else ARGUS_NONE */
};

enum argus_mark_kind { /* what a mark stands for, from its name */
                       ARGUS_MARK_OTHER = 0,
                       ARGUS_MARK_STEP = 1,
                       ARGUS_MARK_DATA = 2,
                       ARGUS_MARK_FORWARD = 3,
                       ARGUS_MARK_BACKWARD = 4,
                       ARGUS_MARK_OPTIMIZER = 5,
                       ARGUS_MARK_COMM = 6
};
struct argus_mark_row {
    int64_t start;
    int64_t end;
    uint32_t name;
    uint32_t domain; /* string id or ARGUS_NONE */
    uint32_t tid;
    uint16_t level;
    uint16_t kind; /* enum argus_mark_kind */
};

struct argus_stack_row {
    int64_t time;
    uint32_t folded; /* string id: "outermost;...;innermost" */
    uint32_t tid;
    uint32_t state; /* 'R','S','D' of the task, 0: unknown */
    uint32_t run_delay_us;
    uint32_t starved; /* 1: the GPU was starving */
    int32_t step;
};

struct argus_health_row {
    int64_t time;
    double value;
    uint32_t metric; /* string id, e.g. "gpu_clock_sm_mhz", "nic_port_rcv_errors" */
    uint32_t device; /* string id: GPU uuid or interface */
};

struct argus_anchor_row {
    int64_t realtime;
    int64_t monotonic_raw;
    int64_t cupti;
};

struct argus_gap_row {
    int64_t start;
    int64_t end;
    uint64_t count;  /* records lost, 0: unknown */
    uint32_t source; /* enum argus_source (record.h) */
    uint32_t reason; /* enum argus_reason (record.h) */
};

/* Root attributes.  Strings are fixed-size, NUL padded. */
struct argus_timeline_info {
    char job[64];            /* "job": job id as in accounting, "" outside Slurm */
    char step[32];           /* "step" */
    int32_t restart;         /* "restart" */
    int32_t rank;            /* "rank" */
    int32_t world;           /* "world" */
    int32_t local_rank;      /* "local_rank" */
    int32_t pid;             /* "pid" */
    char node[64];           /* "node" */
    char gpu_uuid[64];       /* "gpu_uuid" */
    char gpu_name[64];       /* "gpu_name" */
    char gpu_pci[32];        /* "gpu_pci" */
    uint32_t driver_version; /* "driver_version" */
    uint32_t cupti_version;  /* "cupti_version" */
    uint32_t nccl_version;   /* "nccl_version" */
    uint32_t simulated;      /* "simulated": 1: not a real GPU */
    char source[32];         /* "source": "argus", "kineto", "nsys", "faultbench" */
    char mode[16];           /* "mode": "summary" or "full" */
    int32_t window;          /* "window": one full-resolution step in N; 0: every event kept */
};

/* Root attributes that change while the file is written. */
struct argus_timeline_counters {
    uint64_t records;           /* "records": accepted */
    uint64_t dropped;           /* "dropped": lost on the way, all sources */
    uint64_t invalid;           /* "invalid": refused for bad times */
    uint64_t gaps;              /* "gaps": rows of `gaps` */
    uint64_t late;              /* "late": arrived after their step was closed */
    uint64_t torn;              /* "torn": claimed, never committed */
    uint64_t dropped_source[8]; /* "dropped_source": by enum argus_source */
    uint32_t standdown[8];      /* "standdown": enum argus_reason by source */
};
/* Also: "format", "version", "sealed" (0/1), "end" ("exit", "killed", "drained", "import", "" while open). */

#endif /* ARGUS_TIMELINE_H */
