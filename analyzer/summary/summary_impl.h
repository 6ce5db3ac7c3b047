/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the summary: shared by its files only. */
#ifndef ARGUS_SUMMARY_IMPL_H
#define ARGUS_SUMMARY_IMPL_H

#include "analyzer/summary/breakdown.h"
#include "analyzer/summary/hist.h"
#include "analyzer/summary/summary.h"

#define ARGUS_PENDING_MAX (1u << 18) /* events that wait for a step, before some are given up */
#define ARGUS_MARKS_MAX 1024u        /* marks held for the open step */
#define ARGUS_MEDIAN_STEPS 64u
#define ARGUS_GAPS_MAX 64u
#define ARGUS_FLIGHT_MAX 8u
#define ARGUS_FLIGHT_BYTES (1u << 20)

struct class_acc { /* of the open step */
    uint32_t count;
    uint32_t first_seq;
    int64_t sum, min, max, lead_idle;
};

struct event_list {
    struct argus_pending *ev;
    size_t n, capacity;
    size_t sorted; /* so many from the first are in order of start */
};

enum lock_mode { LOCK_NONE = 0, LOCK_MARKS, LOCK_TOKENS };
enum token_level {                  /* what makes two events the same token */
                   TOKEN_EXACT = 0, /* collective: function, bytes, dtype, communicator */
                   TOKEN_SHAPE,     /* collective: function, communicator */
                   TOKEN_CLASS,     /* kernel or graph: its class */
                   TOKEN_LEVELS
};

struct lock { /* how steps are cut */
    enum lock_mode mode;
    enum token_level level;
    uint32_t comm;     /* of the tokens; ARGUS_NONE for TOKEN_CLASS */
    uint32_t *pattern; /* a step's tokens, from its first */
    size_t period;
    int optimizer; /* the cut follows the last optimizer kernel */
    int unique;    /* last token, [optimizer kernel,] first token: only at the cut */
    uint32_t anchor_comm;
    /* where we are */
    int in_sync;
    size_t position;    /* tokens since the cut */
    size_t last_tokens; /* tokens of the step before */
    uint32_t previous;  /* token */
    int64_t previous_start, previous_end;
    int started; /* the first cut was made: a step is open */
};

struct flight_step { /* a closed step, held in case a slow one follows */
    struct event_list events;
    struct argus_step_row row;
};

struct budget { /* what may still be kept; see keep.c */
    uint64_t routine_left, routine_mark;
    uint64_t slow_left, slow_mark;
    int routine_stride; /* multiple of the window */
    double slow_factor;
};

struct argus_summary {
    struct argus_summary_options opt;
    argus_timeline_writer_t *w;

    struct argus_comm_row *comms;
    uint32_t *first_seq; /* of a communicator: of its first event, ARGUS_NONE: none yet */
    uint32_t n_comms, cap_comms;

    struct argus_class_row *rows; /* classes, four arrays of one length */
    struct argus_class_brief *briefs;
    struct class_acc *accs;
    struct argus_hist *hists;
    uint8_t *seen;       /* in a closed step */
    uint32_t *tokens[2]; /* TOKEN_EXACT, TOKEN_SHAPE of a class */
    uint32_t n_classes, cap_classes;
    uint32_t *class_index; /* hash table of class ids + 1 */
    uint32_t cap_index;
    uint32_t pooled[16]; /* by kind: class id + 1 */
    uint64_t pooled_classes;

    struct event_list pending; /* of the open step, or of the time until a pattern is found */
    uint32_t *touched;         /* classes with a step_comm row in the open step */
    size_t n_touched, cap_touched;
    size_t next_try; /* pending events at which to look for a pattern again */
    int64_t newest;  /* latest end */

    struct argus_mark_row marks[ARGUS_MARKS_MAX]; /* ring */
    uint8_t mark_written[ARGUS_MARKS_MAX];
    size_t n_marks;
    struct argus_gap_row *gaps; /* the last ones */
    size_t n_gaps;

    struct lock lock;
    int relearnt;     /* the next step is the first of a new pattern */
    int64_t boundary; /* the open step's start; INT64_MIN: none yet */
    struct argus_breakdown breakdown;

    int32_t n_steps;       /* closed, = number of the open one */
    int32_t window_first;  /* first step in the histograms; ARGUS_STEP_NONE: only outside ones */
    int64_t agreed_offset; /* step + this = the same on ranks that attached late */
    int64_t durations[ARGUS_MEDIAN_STEPS];
    size_t n_durations;
    int64_t last_duration;
    struct flight_step flight[ARGUS_FLIGHT_MAX]; /* oldest first */
    size_t n_flight;
    struct budget budget;
    struct argus_stack_row *stacks;
    size_t n_stacks, cap_stacks;

    uint64_t late;
    uint64_t events;
    int finished;
};

/* events.c */
int argus_events_append(struct event_list *l, const struct argus_pending *ev);
void argus_events_sort(struct event_list *l);
size_t argus_events_before(const struct event_list *l, int64_t time); /* sorted: starts < time */
void argus_events_drop(struct event_list *l, size_t n);
void argus_events_free(struct event_list *l);

/* learn.c: look for a pattern in s->pending; 1: locked, 0: none, -1: error.  `final`: take what there is. */
int argus_learn(argus_summary_t *s, int final, argus_error_t *err);
uint32_t argus_token_of(const argus_summary_t *s, enum token_level level, uint32_t class_id);
int argus_is_token(const argus_summary_t *s, const struct lock *lock, uint32_t class_id);
void argus_lock_reset(struct lock *lock);

/* cut.c: one event or mark of a locked stream */
int argus_cut_event(argus_summary_t *s, const struct argus_pending *ev, argus_error_t *err);
int argus_cut_mark(argus_summary_t *s, const struct argus_mark_row *mark, argus_error_t *err);
int argus_cut_finish(argus_summary_t *s, argus_error_t *err);

/* step.c */
int argus_step_close(argus_summary_t *s, int64_t end, uint32_t flags, argus_error_t *err);
/* The first n pending events belong to no step. */
int argus_step_outside(argus_summary_t *s, size_t n, argus_error_t *err);
int argus_window_emit(argus_summary_t *s, int32_t first, int32_t last, argus_error_t *err);

/* keep.c */
void argus_keep_init(argus_summary_t *s);
/* Takes the events of a closed step and writes its row, at once or when it can no longer be kept. */
int argus_keep_step(argus_summary_t *s, struct argus_step_row *row, struct event_list *events,
                    int64_t median, argus_error_t *err);
/* Rows of the steps that ended by then. */
int argus_keep_release(argus_summary_t *s, int64_t before, argus_error_t *err);
int argus_keep_age(argus_summary_t *s, argus_error_t *err);
void argus_keep_free(argus_summary_t *s);

/* classes.c */
uint32_t argus_summary_pool_class(argus_summary_t *s, int kind);
/* A class whose row is in the file. */
uint32_t argus_summary_known_class(argus_summary_t *s, const struct argus_class_row *row);

/* summary.c */
int argus_summary_stacks(argus_summary_t *s, const struct argus_step_row *row, argus_error_t *err);

#endif /* ARGUS_SUMMARY_IMPL_H */
