/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring between a traced process (libargus-collector.so) and its node's
 * recorder (argus-record).
 *
 * One file a process, "<spool>/<rank>-<pid>.ring", in node-local memory.  It
 * outlives its writer: what was committed before a SIGKILL is read later.
 *
 *   +--------------------+ 0
 *   | argus_ring_header  | ARGUS_RING_HEADER_BYTES
 *   +--------------------+ slots_offset
 *   | slots              | `slots` (a power of two) records of 64 bytes
 *   +--------------------+ names_offset
 *   | names              | append-only heap of interned strings
 *   +--------------------+
 *
 * The file is created under a name that does not end in ".ring", filled, and
 * renamed; a reader therefore never sees a half-made header.  Space is
 * reserved (posix_fallocate) before it is mapped: a full tmpfs must fail with
 * an error, not with SIGBUS in the user's process.
 *
 * Many producers, one consumer, no locks.  Position p lives in slot
 * p % slots, lap = p / slots:
 *
 *   state == 2*lap      free: a producer that moved `head` from p to p+1 owns it
 *   state == 2*lap + 1  committed: the consumer may read it
 *   state == 2*lap + 2  consumed, that is, free for the next lap
 *
 * so that zeroed memory is an empty ring.  The consumer frees in order of
 * position: a free slot tells of all those before it.  A producer that finds its slot not
 * free drops the record and counts it in dropped[source]; it never waits.  A
 * slot that was claimed but never committed by a process that is dead is
 * skipped by the consumer and counted as torn.
 *
 * All times are int64 nanoseconds of CLOCK_REALTIME, which is CUPTI's default
 * clock on Linux.  Byte order and alignment are the machine's (x86-64,
 * aarch64: little endian, both sides on the same node).
 */
#ifndef ARGUS_RECORD_H
#define ARGUS_RECORD_H

#include <stdint.h>

#define ARGUS_RING_MAGIC 0x31474e4952475241ULL /* "ARGRING1" */
#define ARGUS_RING_VERSION 1
#define ARGUS_RING_HEADER_BYTES 4096
#define ARGUS_RING_SUFFIX ".ring"
#define ARGUS_RECORD_BYTES 64
#define ARGUS_NAMES_BYTES_DEFAULT (4u << 20)
#define ARGUS_NAME_NONE 0u /* offset 0 of the heap is never a name */

/* Where a record came from: the index of the counters below. */
enum argus_source {
    ARGUS_SOURCE_CUPTI = 0,
    ARGUS_SOURCE_NCCL = 1,
    ARGUS_SOURCE_NVTX = 2,
    ARGUS_SOURCE_STACKS = 3,
    ARGUS_SOURCE_COUNT = 8 /* room; the header never changes size */
};

/* Why a source is silent or a process ended; header fields `standdown[source]`
 * and `end`, and reason of a GAP record. */
enum argus_reason {
    ARGUS_REASON_NONE = 0,
    ARGUS_REASON_USER_SET = 1,      /* the user had set the variable: stood down */
    ARGUS_REASON_NO_LIBRARY = 2,    /* library not found */
    ARGUS_REASON_REFUSED = 3,       /* API refused; code in standdown_code */
    ARGUS_REASON_OTHER_CLIENT = 4,  /* another profiler took CUPTI over */
    ARGUS_REASON_INVALID_TIMES = 5, /* too many invalid timestamps */
    ARGUS_REASON_BAD_VERSION = 6,   /* version known as bad */
    ARGUS_REASON_OFF = 7,           /* switched off by `sources` */
    ARGUS_REASON_DROPPED = 8,       /* ring full */
    ARGUS_REASON_SILENT = 9,        /* work seen, no kernel records */
    ARGUS_REASON_EXIT = 16,         /* `end`: orderly exit */
    ARGUS_REASON_EXIT_DEADLINE = 17 /* `end`: exit, flush did not return in time */
};

enum argus_record_type {
    ARGUS_REC_NONE = 0,
    ARGUS_REC_KERNEL = 1, /* u.kernel; start..end on the GPU */
    ARGUS_REC_MEMCPY = 2, /* u.copy */
    ARGUS_REC_MEMSET = 3, /* u.copy */
    ARGUS_REC_GRAPH = 4,  /* u.kernel: one graph launch (coarse option); name = 0 */
    ARGUS_REC_OVERHEAD =
        5, /* u.host: code = CUPTI overhead kind >> 16 (4,5: JIT/lazy, 6: queue full) */
    ARGUS_REC_SYNC = 6,       /* u.host: code = CUPTI synchronization type */
    ARGUS_REC_API = 7,        /* u.host: code = enum argus_api */
    ARGUS_REC_COMM = 8,       /* u.comm: a communicator was made; start = when */
    ARGUS_REC_OP = 9,         /* u.op: a collective or send/recv call; start = end = when called */
    ARGUS_REC_OP_DETAIL = 10, /* u.op: what NCCL made of it (seq, algo, proto, peer) */
    ARGUS_REC_LAUNCH = 11, /* u.op: stream only. Closes the ops since this thread's previous LAUNCH:
                                they are what the next NCCL kernel on that stream carries */
    ARGUS_REC_PEER_WAIT = 12, /* u.peer: a proxy step's wait; start..end */
    ARGUS_REC_MARK = 13,      /* u.mark: a finished NVTX range */
    ARGUS_REC_STACK = 14,     /* u.stack: one CPU stack sample; start = when */
    ARGUS_REC_ANCHOR = 15,    /* u.anchor: clock anchors; start = CLOCK_REALTIME */
    ARGUS_REC_GAP = 16,       /* u.gap: no data of `source` from start to end */
    ARGUS_REC_FLUSH =
        17 /* end of a CUPTI flush cycle: every GPU record that was complete before the
                                previous FLUSH record has been delivered; start = when */
};

enum argus_api { ARGUS_API_MALLOC = 1, ARGUS_API_FREE = 2 };

/* Functions, datatypes, algorithms and protocols, as small numbers on the
 * ring; ARGUS_FUNC_* also stand in the timeline's `classes`. */
enum argus_func {
    ARGUS_FUNC_NONE = 0,
    ARGUS_FUNC_ALLREDUCE = 1,
    ARGUS_FUNC_ALLGATHER = 2,
    ARGUS_FUNC_REDUCESCATTER = 3,
    ARGUS_FUNC_BROADCAST = 4,
    ARGUS_FUNC_REDUCE = 5,
    ARGUS_FUNC_ALLTOALL = 6,
    ARGUS_FUNC_GATHER = 7,
    ARGUS_FUNC_SCATTER = 8,
    ARGUS_FUNC_SEND = 9,
    ARGUS_FUNC_RECV = 10,
    ARGUS_FUNC_SENDRECV = 11, /* a kernel that carries sends and receives */
    ARGUS_FUNC_BARRIER = 12,
    ARGUS_FUNC_GROUP = 13, /* a kernel that carries unlike operations */
    ARGUS_FUNC_OTHER = 14,
    ARGUS_FUNC_COUNT = 15
};
enum argus_dtype { /* ncclDataType_t order; sizes in argus_dtype_bytes() */
                   ARGUS_DTYPE_INT8 = 0,
                   ARGUS_DTYPE_UINT8 = 1,
                   ARGUS_DTYPE_INT32 = 2,
                   ARGUS_DTYPE_UINT32 = 3,
                   ARGUS_DTYPE_INT64 = 4,
                   ARGUS_DTYPE_UINT64 = 5,
                   ARGUS_DTYPE_F16 = 6,
                   ARGUS_DTYPE_F32 = 7,
                   ARGUS_DTYPE_F64 = 8,
                   ARGUS_DTYPE_BF16 = 9,
                   ARGUS_DTYPE_F8E4M3 = 10,
                   ARGUS_DTYPE_F8E5M2 = 11,
                   ARGUS_DTYPE_UNKNOWN = 255
};
enum argus_algo { /* 0: unknown */
                  ARGUS_ALGO_TREE = 1,
                  ARGUS_ALGO_RING = 2,
                  ARGUS_ALGO_COLLNET_DIRECT = 3,
                  ARGUS_ALGO_COLLNET_CHAIN = 4,
                  ARGUS_ALGO_NVLS = 5,
                  ARGUS_ALGO_NVLS_TREE = 6,
                  ARGUS_ALGO_PAT = 7
};
enum argus_proto { ARGUS_PROTO_LL = 1, ARGUS_PROTO_LL128 = 2, ARGUS_PROTO_SIMPLE = 3 };

#define ARGUS_FLAG_GRAPH_CAPTURED 0x1 /* OP: recorded into a CUDA graph, not run now */
#define ARGUS_FLAG_NVTX 0x2           /* OP: from an NCCL NVTX payload, not from the plugin */
#define ARGUS_FLAG_API 0x4            /* OP: from CollApi/P2pApi (NCCL >= 2.28) */

struct argus_rec_kernel {
    uint32_t name;   /* offset in the names heap (mangled name) */
    uint32_t stream; /* CUPTI stream id */
    uint32_t grid_x;
    uint16_t grid_y, grid_z; /* CUDA's limit is 65535 */
    uint16_t block_x, block_y, block_z;
    uint16_t device;
    uint32_t graph;      /* graph id, 0: not from a graph */
    uint32_t graph_node; /* low 32 bits of the node id */
};
struct argus_rec_copy {
    uint64_t bytes;
    uint32_t stream;
    uint32_t graph;
    uint8_t kind;     /* CUpti_ActivityMemcpyKind: 1 HtoD, 2 DtoH, 8 DtoD, 10 PtoP ... */
    uint8_t src_kind; /* CUpti_ActivityMemoryKind */
    uint8_t dst_kind;
    uint8_t pad;
    uint16_t device;
    uint16_t peer_device;
    uint32_t pad2[2];
};
struct argus_rec_host {
    uint32_t code;
    uint32_t stream;
    uint64_t bytes;
    uint64_t pad[2];
};
struct argus_rec_comm {
    uint64_t comm; /* commId / commHash: equal on all ranks of the communicator */
    uint32_t nranks;
    uint32_t rank;    /* ours in it */
    uint32_t nnodes;  /* 0: unknown */
    uint32_t name;    /* offset, may be ARGUS_NAME_NONE */
    uint32_t version; /* profiler interface version, 0: from NVTX */
    uint32_t pad;
};
struct argus_rec_op {
    uint64_t comm;  /* 0: unknown */
    uint64_t count; /* elements as the user passed them (bytes where dtype is INT8) */
    uint32_t seq;   /* OP: our own counter per communicator, from 0; OP_DETAIL: NCCL's */
    int32_t peer;   /* peer of send/recv, root of rooted operations, -1: none or unknown */
    uint8_t func, dtype, algo, proto;
    uint32_t stream; /* CUPTI stream id, 0: unknown */
};
struct argus_rec_peer {
    uint64_t comm;
    int32_t peer;
    uint32_t state; /* NCCL proxy state: 8 SendGPUWait, 9 SendWait, 10 RecvWait, 11 RecvFlushWait,
                         12 RecvGPUWait, 20 SendPeerWait */
    uint32_t channel;
    uint32_t count; /* steps folded into this record */
    uint64_t bytes;
};
struct argus_rec_mark {
    uint32_t name;
    uint32_t domain; /* name of the NVTX domain, ARGUS_NAME_NONE: default */
    uint32_t level;  /* nesting depth of the thread */
    uint32_t pad;
    uint64_t pad2[2];
};
struct argus_rec_stack {
    uint32_t folded; /* "outermost;...;innermost", frames "function (file:line)" */
    uint32_t tid;
    uint32_t state;        /* 'R','S','D',... of /proc task stat, 0: unknown */
    uint32_t run_delay_us; /* runqueue wait since the previous sample */
    uint32_t starved;      /* 1: taken because the GPU starved */
    uint32_t pad[3];
};
struct argus_rec_anchor {
    int64_t monotonic_raw;
    int64_t cupti; /* cuptiGetTimestamp, 0: not available */
    uint64_t pad[2];
};
struct argus_rec_gap {
    uint32_t source; /* enum argus_source */
    uint32_t reason; /* enum argus_reason */
    uint64_t count;  /* records lost, 0: unknown */
    uint64_t pad[2];
};

struct argus_record {
    uint64_t state; /* see above; atomic */
    uint16_t type;  /* enum argus_record_type */
    uint16_t flags; /* ARGUS_FLAG_* */
    uint32_t tid;   /* thread that produced it */
    int64_t start;
    int64_t end;
    union {
        struct argus_rec_kernel kernel;
        struct argus_rec_copy copy;
        struct argus_rec_host host;
        struct argus_rec_comm comm;
        struct argus_rec_op op;
        struct argus_rec_peer peer;
        struct argus_rec_mark mark;
        struct argus_rec_stack stack;
        struct argus_rec_anchor anchor;
        struct argus_rec_gap gap;
        uint64_t words[4];
    } u;
};

/* A name in the heap: length, then bytes, not terminated; entries start at
 * multiples of 8.  `names_tail` moves by atomic add; a record that refers to
 * a name is committed after the name's bytes are written. */
struct argus_name {
    uint32_t length;
    char bytes[];
};

struct argus_ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint32_t names_bytes;
    uint64_t slots;
    uint64_t slots_offset;
    uint64_t names_offset;
    int32_t pid;
    int32_t ppid;
    uint64_t pid_start; /* field 22 of /proc/<pid>/stat: tells a reused pid */
    int64_t created;
    int32_t rank; /* global; -1: unknown */
    int32_t world;
    int32_t local_rank;
    int32_t device; /* CUDA ordinal of the first record, -1: none yet */
    char job[32];
    char step[32];
    char node[64];
    char exe[64]; /* base name of the program */
    char gpu_uuid[64];
    char gpu_name[64];
    char gpu_pci[32];
    uint32_t driver_version;                    /* cuDriverGetVersion */
    uint32_t cupti_version;                     /* cuptiGetVersion */
    uint32_t nccl_interface;                    /* newest ncclProfiler_vN that NCCL used, 0: none */
    uint32_t nccl_version;                      /* ncclGetVersion code, 0: unknown */
    uint32_t simulated;                         /* 1: the GPU is contrib/simgpu's stand-in */
    uint32_t standdown[ARGUS_SOURCE_COUNT];     /* enum argus_reason */
    int32_t standdown_code[ARGUS_SOURCE_COUNT]; /* API result, 0: none */
    uint32_t end;                               /* enum argus_reason, 0: still running or killed */
    uint32_t pad;
    uint64_t records[ARGUS_SOURCE_COUNT];       /* committed */
    uint64_t dropped[ARGUS_SOURCE_COUNT];       /* ring full, or reported lost by the source */
    uint64_t invalid[ARGUS_SOURCE_COUNT];       /* refused: bad times */
    uint64_t names_dropped;                     /* heap full: the name reads "(name table full)" */
    uint64_t head __attribute__((aligned(64))); /* next position to claim */
    uint64_t names_tail __attribute__((aligned(64))); /* next free byte of the heap, starts at 8 */
    uint64_t tail __attribute__((aligned(64)));       /* next position to read; the consumer's */
    int64_t heartbeat; /* CLOCK_MONOTONIC ns of the consumer's last pass */
};

_Static_assert(sizeof(struct argus_record) == ARGUS_RECORD_BYTES, "a record is one cache line");
_Static_assert(sizeof(struct argus_ring_header) <= ARGUS_RING_HEADER_BYTES,
               "the header fits a page");

#endif /* ARGUS_RECORD_H */
