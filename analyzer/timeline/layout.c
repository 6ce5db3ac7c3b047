/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include "analyzer/timeline/layout.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "timelines are little endian and so is every machine that writes them"
#endif

/* clang-format off */
#define TYPE_OF(x)                                                                                 \
    _Generic((x), uint8_t: TL_U8, uint16_t: TL_U16, uint32_t: TL_U32, int32_t: TL_I32,             \
             uint64_t: TL_U64, int64_t: TL_I64, double: TL_F64,                                    \
             const uint32_t *: TL_U32, const uint64_t *: TL_U64, const char *: TL_STR)
#define SCALAR_OF(x)                                                                               \
    _Generic((x), const uint32_t *: sizeof(uint32_t), const uint64_t *: sizeof(uint64_t),          \
             const char *: sizeof(char), default: sizeof(x))
/* clang-format on */
#define AT(s, f) (((const struct s *)0)->f)
#define M(s, f)                                                                                    \
    {                                                                                              \
#f, TYPE_OF(AT(s, f)), offsetof(struct s, f), sizeof(AT(s, f)) / (SCALAR_OF(AT(s, f)))     \
    }

static const struct tl_member string_members[] = {
    M(argus_string_row, offset), M(argus_string_row, length), M(argus_string_row, pad)};
static const struct tl_member comm_members[] = {
    M(argus_comm_row, hash),  M(argus_comm_row, name),  M(argus_comm_row, size),
    M(argus_comm_row, rank),  M(argus_comm_row, nodes), M(argus_comm_row, members),
    M(argus_comm_row, flags),
};
static const struct tl_member class_members[] = {
    M(argus_class_row, kind),   M(argus_class_row, func),  M(argus_class_row, dtype),
    M(argus_class_row, family), M(argus_class_row, flags), M(argus_class_row, name),
    M(argus_class_row, stream), M(argus_class_row, grid),  M(argus_class_row, block),
    M(argus_class_row, comm),   M(argus_class_row, peer),  M(argus_class_row, bytes),
};
static const struct tl_member step_members[] = {
    M(argus_step_row, start),      M(argus_step_row, end),         M(argus_step_row, compute),
    M(argus_step_row, comm),       M(argus_step_row, exposed),     M(argus_step_row, copy),
    M(argus_step_row, idle),       M(argus_step_row, copy_busy),   M(argus_step_row, copy_bytes),
    M(argus_step_row, head_idle),  M(argus_step_row, gap),         M(argus_step_row, gap_offset),
    M(argus_step_row, lead_idle),  M(argus_step_row, overhead),    M(argus_step_row, alloc),
    M(argus_step_row, forward),    M(argus_step_row, backward),    M(argus_step_row, optimizer),
    M(argus_step_row, anchor_seq), M(argus_step_row, anchor_comm), M(argus_step_row, step),
    M(argus_step_row, gap_class),  M(argus_step_row, kernels),     M(argus_step_row, comms),
    M(argus_step_row, copies),     M(argus_step_row, new_classes), M(argus_step_row, flags),
};
static const struct tl_member step_comm_members[] = {
    M(argus_step_comm_row, step),  M(argus_step_comm_row, class_id),
    M(argus_step_comm_row, count), M(argus_step_comm_row, first_seq),
    M(argus_step_comm_row, sum),   M(argus_step_comm_row, min),
    M(argus_step_comm_row, max),   M(argus_step_comm_row, lead_idle),
};
static const struct tl_member cluster_members[] = {
    M(argus_cluster_row, first_step), M(argus_cluster_row, last_step),
    M(argus_cluster_row, class_id),   M(argus_cluster_row, cluster),
    M(argus_cluster_row, clusters),   M(argus_cluster_row, count),
    M(argus_cluster_row, pad),        M(argus_cluster_row, p50),
    M(argus_cluster_row, p99),        M(argus_cluster_row, sum),
    M(argus_cluster_row, min),        M(argus_cluster_row, max),
};
static const struct tl_member event_members[] = {
    M(argus_event_row, start),  M(argus_event_row, duration), M(argus_event_row, class_id),
    M(argus_event_row, stream), M(argus_event_row, step),     M(argus_event_row, seq),
};
static const struct tl_member mark_members[] = {
    M(argus_mark_row, start),  M(argus_mark_row, end), M(argus_mark_row, name),
    M(argus_mark_row, domain), M(argus_mark_row, tid), M(argus_mark_row, level),
    M(argus_mark_row, kind),
};
static const struct tl_member stack_members[] = {
    M(argus_stack_row, time),  M(argus_stack_row, folded),       M(argus_stack_row, tid),
    M(argus_stack_row, state), M(argus_stack_row, run_delay_us), M(argus_stack_row, starved),
    M(argus_stack_row, step),
};
static const struct tl_member health_members[] = {
    M(argus_health_row, time), M(argus_health_row, value), M(argus_health_row, metric),
    M(argus_health_row, device)};
static const struct tl_member anchor_members[] = {
    M(argus_anchor_row, realtime), M(argus_anchor_row, monotonic_raw), M(argus_anchor_row, cupti)};
static const struct tl_member gap_members[] = {M(argus_gap_row, start), M(argus_gap_row, end),
                                               M(argus_gap_row, count), M(argus_gap_row, source),
                                               M(argus_gap_row, reason)};

#define I(f) M(argus_timeline_info, f)
const struct tl_member tl_info_members[] = {
    I(job),           I(step),         I(restart),   I(rank),     I(world),   I(local_rank),
    I(pid),           I(node),         I(gpu_uuid),  I(gpu_name), I(gpu_pci), I(driver_version),
    I(cupti_version), I(nccl_version), I(simulated), I(source),   I(mode),    I(window),
};
const size_t tl_n_info_members = sizeof(tl_info_members) / sizeof(tl_info_members[0]);

#define C(f) M(argus_timeline_counters, f)
const struct tl_member tl_counter_members[] = {
    C(records), C(dropped), C(invalid), C(gaps), C(late), C(torn), C(dropped_source), C(standdown),
};
const size_t tl_n_counter_members = sizeof(tl_counter_members) / sizeof(tl_counter_members[0]);

#define S(f) M(tl_state, f)
const struct tl_member tl_state_members[] = {S(format), S(version), S(sealed), S(end)};
const size_t tl_n_state_members = sizeof(tl_state_members) / sizeof(tl_state_members[0]);

/* clang-format off */
#define TABLE(name, row, live, sealed, m)                                                          \
    {name, sizeof(struct row), live, sealed, m, sizeof(m) / sizeof((m)[0])}
const struct tl_table tl_tables[ARGUS_DS_COUNT] = {
    [ARGUS_DS_STRINGS] = {"strings", 1, 2048, 8192, NULL, 0},
    [ARGUS_DS_STRINGS_INDEX] = TABLE("strings_index", argus_string_row, 64, 256, string_members),
    [ARGUS_DS_COMMS] = TABLE("comms", argus_comm_row, 32, 32, comm_members),
    [ARGUS_DS_CLASSES] = TABLE("classes", argus_class_row, 32, 128, class_members),
    [ARGUS_DS_STEPS] = TABLE("steps", argus_step_row, 32, 128, step_members),
    [ARGUS_DS_STEP_COMM] = TABLE("step_comm", argus_step_comm_row, 128, 512, step_comm_members),
    [ARGUS_DS_CLUSTERS] = TABLE("clusters", argus_cluster_row, 128, 512, cluster_members),
    [ARGUS_DS_EVENTS] = TABLE("events", argus_event_row, 4096, 4096, event_members),
    [ARGUS_DS_MARKS] = TABLE("marks", argus_mark_row, 256, 512, mark_members),
    [ARGUS_DS_STACKS] = TABLE("stacks", argus_stack_row, 32, 128, stack_members),
    [ARGUS_DS_HEALTH] = TABLE("health", argus_health_row, 128, 512, health_members),
    [ARGUS_DS_ANCHORS] = TABLE("anchors", argus_anchor_row, 32, 64, anchor_members),
    [ARGUS_DS_GAPS] = TABLE("gaps", argus_gap_row, 32, 64, gap_members),
};
/* clang-format on */

const char *argus_timeline_dataset_name(enum argus_dataset dataset)
{
    return (unsigned)dataset < ARGUS_DS_COUNT ? tl_tables[dataset].name : "";
}

size_t argus_timeline_row_bytes(enum argus_dataset dataset)
{
    return (unsigned)dataset < ARGUS_DS_COUNT ? tl_tables[dataset].row_bytes : 0;
}

#define PAGE_BYTES 4096
#define READ_ATTEMPTS 18 /* half a millisecond at most */

/*
 * HDF5 keeps its types in tables of its own, one set a process; making ours
 * once beside them is what keeps opening a file cheap.
 */
static hid_t row_types[ARGUS_DS_COUNT];
static int library_ready;

hid_t tl_native(enum tl_type type)
{
    switch (type) {
    case TL_U8:
        return H5T_STD_U8LE;
    case TL_U16:
        return H5T_STD_U16LE;
    case TL_U32:
        return H5T_STD_U32LE;
    case TL_I32:
        return H5T_STD_I32LE;
    case TL_U64:
        return H5T_STD_U64LE;
    case TL_I64:
        return H5T_STD_I64LE;
    case TL_F64:
        return H5T_IEEE_F64LE;
    default:
        return H5I_INVALID_HID;
    }
}

static hid_t make_row_type(const struct tl_table *t)
{
    hid_t type;

    if (!t->members)
        return H5Tcopy(H5T_STD_U8LE);
    type = H5Tcreate(H5T_COMPOUND, t->row_bytes);
    if (type < 0)
        return type;
    for (uint32_t i = 0; i < t->n_members; i++) {
        const struct tl_member *m = &t->members[i];
        hsize_t n = m->count;
        hid_t array = m->count > 1 ? H5Tarray_create2(tl_native(m->type), 1, &n) : -1;
        herr_t rc = H5Tinsert(type, m->name, m->offset, m->count > 1 ? array : tl_native(m->type));
        if (array >= 0)
            H5Tclose(array);
        if (rc < 0) {
            H5Tclose(type);
            return H5I_INVALID_HID;
        }
    }
    return type;
}

static void start_library(void)
{
    /* HDF5's own exit handler would close our types before files that are still open, and would trip
     * over a file whose close failed (a full disk): such a one stays registered, half taken apart. */
    H5dont_atexit();
    if (H5open() < 0)
        return;
    H5PLset_loading_state(0); /* a file must not make us load its filter */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int i = 0; i < ARGUS_DS_COUNT; i++) {
        row_types[i] = make_row_type(&tl_tables[i]);
        if (row_types[i] < 0)
            return;
    }
    library_ready = 1;
}

int tl_library(argus_error_t *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_library);
    if (!library_ready)
        return argus_error(err, "HDF5 does not start");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the error stack is one a thread */
    return 0;
}

hid_t tl_row_type(enum argus_dataset which)
{
    return row_types[which];
}

hid_t tl_access(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};

    if (fapl < 0)
        return fapl;
    if (H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110) < 0)
        goto error;
#if H5_VERSION_GE(1, 10, 7)
    if (H5Pset_file_locking(fapl, 0, 1) < 0)
        goto error;
#endif
    /* A SWMR reader that meets a bad checksum tries again after 1, 2, 4 ... ns,
     * by default a hundred times: on a damaged file, for ever. */
    if (H5Pset_metadata_read_attempts(fapl, READ_ATTEMPTS) < 0)
        goto error;
    if (H5Pget_mdc_config(fapl, &cache) >= 0) {
        cache.set_initial_size = 1;
        cache.initial_size = 256 * 1024;
        cache.min_size = 64 * 1024;
        cache.max_size = 2 * 1024 * 1024;
        H5Pset_mdc_config(fapl, &cache);
    }
    /* Chunks go past HDF5's cache (H5Dread_chunk), so none is needed. */
    H5Pset_cache(fapl, 0, 1, 0, 0.0);
    return fapl;
error:
    H5Pclose(fapl);
    return H5I_INVALID_HID;
}

static herr_t innermost(unsigned n, const H5E_error2_t *entry, void *data)
{
    const char *said = entry->desc ? strstr(entry->desc, "error message = '") : NULL;
    char *text = data;

    /* The first entry knows best, unless it is one that carries the system's own words. */
    if (said) {
        said += strlen("error message = '");
        snprintf(text, 128, "%.*s", (int)strcspn(said, "'"), said);
        return 1;
    }
    if (n == 0 && entry->desc)
        snprintf(text, 128, "%s", entry->desc);
    return 0;
}

int tl_error(argus_error_t *err, const char *path, const char *what)
{
    char text[128] = "";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, text);
    return argus_error(err, "%s: %s%s%s", path, what, text[0] ? ": " : "", text);
}

hid_t tl_create_file(const char *path, int live)
{
    hid_t fapl = tl_access(), fcpl = H5Pcreate(H5P_FILE_CREATE), file = H5I_INVALID_HID;
    hid_t errors;

    if (fapl < 0 || fcpl < 0)
        goto out;
    /* Thirty attributes would otherwise go into a heap and a tree of their own. */
    if (H5Pset_attr_phase_change(fcpl, 64, 0) < 0 || H5Pset_link_phase_change(fcpl, 64, 0) < 0)
        goto out;
    /* A kill cuts a write at a page: no piece of metadata may lie across two. */
    if (live && (H5Pset_file_space_strategy(fcpl, H5F_FSPACE_STRATEGY_PAGE, 0, 1) < 0 ||
                 H5Pset_file_space_page_size(fcpl, PAGE_BYTES) < 0))
        goto out;
    file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
out:
    errors = H5Eget_current_stack(); /* the next call would clear it */
    if (fcpl >= 0)
        H5Pclose(fcpl);
    if (fapl >= 0)
        H5Pclose(fapl);
    H5Eset_current_stack(errors);
    return file;
}

hid_t tl_create_dataset(hid_t file, enum argus_dataset which, uint64_t rows, uint32_t chunk_rows)
{
    hsize_t dims = rows, most = rows ? rows : H5S_UNLIMITED, chunk = chunk_rows;
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &dims, &most);
    hid_t dset = H5I_INVALID_HID;

    if (dcpl < 0 || space < 0)
        goto out;
    H5Pset_obj_track_times(dcpl, 0);
    if (H5Pset_chunk(dcpl, 1, &chunk) < 0 || H5Pset_shuffle(dcpl) < 0 ||
        H5Pset_deflate(dcpl, 1) < 0 || H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) < 0)
        goto out;
    dset = H5Dcreate2(file, tl_tables[which].name, row_types[which], space, H5P_DEFAULT, dcpl,
                      H5P_DEFAULT);
out:
    if (space >= 0)
        H5Sclose(space);
    if (dcpl >= 0)
        H5Pclose(dcpl);
    return dset;
}
