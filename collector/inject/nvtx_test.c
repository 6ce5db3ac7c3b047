/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX source against a client that does what the header-only library
 * does, and, where configure found NVTX, against the header-only library
 * itself (static injection).
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/inject/inject.h"
#include "collector/inject/nvtx_facts.h"
#include "collector/inject/testkit.h"

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));
int InitializeInjectionNvtxExtension(struct nvtx_extension *module);

#ifdef HAVE_NVTX3_NVTOOLSEXT_H
#include <nvtx3/nvToolsExt.h>
#endif

static int setup(void **state)
{
    testkit_setup(state);
    unsetenv("NVTX_INJECTION64_PATH");
    return 0;
}

/* ---- a client ---- */

#define SLOTS 17

static nvtx_function core_functions[SLOTS], core2_functions[SLOTS];
static nvtx_function *core_slots[SLOTS], *core2_slots[SLOTS];
static intptr_t extension_slots[16];

static int module_table(uint32_t module, nvtx_table *table, unsigned *size)
{
    if (module != NX_MODULE_CORE && module != NX_MODULE_CORE2)
        return 0;
    *table = module == NX_MODULE_CORE ? core_slots : core2_slots;
    *size = SLOTS - 1;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof(callbacks), module_table};

    return id == NX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void attach(void)
{
    struct nvtx_segment segment = {0, 13, extension_slots};
    struct nvtx_extension module = {3, sizeof(module) + 16, NX_PAYLOAD_MODULE, 0x103, 1, &segment};

    for (int i = 1; i < SLOTS - 1; i++) {
        core_slots[i] = &core_functions[i];
        core2_slots[i] = &core2_functions[i];
    }
    CHECK(InitializeInjectionNvtx2(export_table) == 1);
    CHECK(InitializeInjectionNvtxExtension(&module) == 1);
}

#define PUSH(text) ((int (*)(const char *))core_functions[NX_PUSH_A])(text)
#define POP() ((int (*)(void))core_functions[NX_POP])()
#define START(text) ((uint64_t(*)(const char *))core_functions[NX_RANGE_START_A])(text)
#define END(id) ((void (*)(uint64_t))core_functions[NX_RANGE_END])(id)
#define DOMAIN(text) ((void *(*)(const char *))core2_functions[NX2_DOMAIN_CREATE_A])(text)
#define STRING(d, text)                                                                            \
    ((void *(*)(void *, const char *))core2_functions[NX2_REGISTER_STRING_A])(d, text)
#define PUSH_EX(d, a) ((int (*)(void *, void *))core2_functions[NX2_PUSH_EX])(d, a)
#define POP_EX(d) ((int (*)(void *))core2_functions[NX2_POP])(d)
#define POP_PAYLOAD(d, p, n)                                                                       \
    ((int (*)(void *, const struct nvtx_payload *, size_t))extension_slots[NXP_POP])(d, p, n)

static struct nvtx_attributes message(int type, const void *text)
{
    struct nvtx_attributes a;

    memset(&a, 0, sizeof(a));
    a.version = 3;
    a.size = sizeof(a);
    a.message_type = type;
    a.message = text;
    return a;
}

/* ---- a process without a GPU makes ranges and no ring ---- */

static void no_gpu(void *unused)
{
    (void)unused;
    attach();
    for (int i = 0; i < 100; i++) {
        PUSH("load");
        POP();
    }
    CHECK(testkit_rings(testkit_here) == 0);
}

static void test_no_gpu(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(no_gpu, NULL), 0);
}

/* ---- ranges ---- */

static void *other_thread(void *unused)
{
    (void)unused;
    PUSH("elsewhere");
    POP();
    return NULL;
}

struct seen {
    char name[64], domain[64];
    uint32_t level;
    int64_t length;
};

static unsigned marks(struct view *view, struct seen *seen, unsigned max)
{
    struct argus_record r;
    unsigned n = 0;

    while (testkit_next(view, &r)) {
        if (r.type != ARGUS_REC_MARK || n == max)
            continue;
        snprintf(seen[n].name, sizeof(seen[n].name), "%s", testkit_name(view, r.u.mark.name));
        snprintf(seen[n].domain, sizeof(seen[n].domain), "%s", testkit_name(view, r.u.mark.domain));
        seen[n].level = r.u.mark.level;
        seen[n].length = r.end - r.start;
        n++;
    }
    return n;
}

static void ranges(void *unused)
{
    static const wchar_t wide[] = L"breit";
    struct nvtx_attributes a;
    struct seen seen[64];
    pthread_t thread;
    struct view view;
    void *domain, *string;
    uint64_t id;
    unsigned n;

    (void)unused;
    attach();
    domain = DOMAIN("nemo");
    CHECK(domain && DOMAIN("nemo") == domain);
    string = STRING(domain, "train_step");
    CHECK(argus_ring_open() == 0);

    PUSH("forward");
    a = message(NX_MESSAGE_REGISTERED, string);
    PUSH_EX(domain, &a);
    POP(); /* the default domain's top is below the other's */
    POP_EX(domain);
    id = START("across");
    CHECK(id != 0);
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    pthread_join(thread, NULL);
    END(id);
    END(id);
    END(0);
    END(987654321);
    POP(); /* nothing is open */
    PUSH("aten::mm, seq = 17, op_id = 4");
    POP();
    PUSH("ProfilerStep#12");
    POP();
    a = message(NX_MESSAGE_UNICODE, wide);
    PUSH_EX(NULL, &a);
    POP_EX(NULL);
    a = message(77, "unknown kind of message");
    PUSH_EX(domain, &a);
    POP_EX(domain);
    PUSH(NULL);
    POP();
    /* Deeper than we keep: levels beyond are counted, none is mixed up. */
    for (int i = 0; i < ARGUS_NVTX_DEPTH + 10; i++)
        PUSH("deep");
    for (int i = 0; i < ARGUS_NVTX_DEPTH + 10; i++)
        POP();
    PUSH("after");
    POP();

    CHECK(testkit_open(&view, testkit_here));
    n = marks(&view, seen, 7);
    CHECK(n == 7);
    CHECK(strcmp(seen[0].name, "forward") == 0 && seen[0].level == 0);
    CHECK(strcmp(seen[0].domain, "(none)") == 0);
    CHECK(strcmp(seen[1].name, "train_step") == 0 && strcmp(seen[1].domain, "nemo") == 0);
    CHECK(strcmp(seen[2].name, "elsewhere") == 0);
    CHECK(strcmp(seen[3].name, "across") == 0 && seen[3].length >= 0);
    CHECK(strcmp(seen[4].name, "aten::mm") == 0);
    CHECK(strcmp(seen[5].name, "ProfilerStep#") == 0);
    CHECK(strcmp(seen[6].name, "breit") == 0);
    CHECK(view.header->records[ARGUS_SOURCE_NVTX] == 7 + ARGUS_NVTX_DEPTH + 1);
}

static void test_ranges(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(ranges, NULL), 0);
}

/* ---- names that count up must not fill the table ---- */

static void counting(void *unused)
{
    struct view view;
    char text[64];

    (void)unused;
    attach();
    CHECK(argus_ring_open() == 0);
    CHECK(testkit_open(&view, testkit_here)); /* the whole heap is there */
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof(text), "iteration %d of epoch %d", i, i / 7);
        PUSH(text);
        POP();
    }
    CHECK(argus_ring.header->names_dropped == 0);
    CHECK(argus_name("a new kernel") != argus_ring.name_overflow);
}

static void test_counting_names(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(counting, NULL), 0);
}

/* ---- NCCL's payloads, both layouts ---- */

struct ours {
    uint64_t hash, bytes;
    int32_t word, word2;
};
struct older {
    uint64_t bytes;
    int32_t word, word2;
};

static void nccl_call(void *domain, uint64_t sid, const void *data, size_t size)
{
    struct nvtx_payload p = {NCCL_SCHEMA_BASE + sid, size, data};
    struct nvtx_attributes a = message(NX_MESSAGE_ASCII, "ncclSomething");

    a.payload_type = NX_PAYLOAD_EXT;
    a.reserved = 1;
    a.payload = (uint64_t)(uintptr_t)&p;
    PUSH_EX(domain, &a);
    POP_EX(domain);
}

static void nccl_payloads(void *unused)
{
    static const struct {
        uint64_t hash;
        int32_t ranks, rank, device;
    } made = {0xbeef, 16, 3, 1};
    struct nvtx_payload p = {NCCL_SCHEMA_BASE, 24, &made};
    struct ours ours = {0xbeef, 4096, 5, 0};
    struct older older = {2048, 7, 0};
    struct argus_record r;
    struct view view;
    void *domain;
    unsigned ops = 0, comms = 0, marks_seen = 0;

    (void)unused;
    attach();
    domain = DOMAIN("NCCL");
    POP_PAYLOAD(domain, &p, 1);
    nccl_call(domain, NCCL_SID_ALLREDUCE, &ours, 24);
    nccl_call(domain, NCCL_SID_SEND, &ours, 24);
    nccl_call(domain, NCCL_SID_ALLGATHER, &ours, 16);
    nccl_call(domain, NCCL_SID_REDUCE, &ours, 24);
    nccl_call(domain, NCCL_SID_ALLREDUCE, &older, 16);
    nccl_call(domain, NCCL_SID_RECV, &older, 16);
    nccl_call(domain, NCCL_SID_ALLGATHER, &older, 8);
    nccl_call(domain, 99, &ours, 24);
    nccl_call(domain, NCCL_SID_ALLREDUCE, NULL, 24);
    CHECK(testkit_open(&view, testkit_here)); /* a call of NCCL is reason enough for a ring */
    while (testkit_next(&view, &r)) {
        marks_seen += r.type == ARGUS_REC_MARK;
        if (r.type == ARGUS_REC_COMM) {
            comms++;
            CHECK(r.u.comm.comm == 0xbeef && r.u.comm.nranks == 16 && r.u.comm.rank == 3);
        }
        if (r.type != ARGUS_REC_OP)
            continue;
        CHECK(r.flags == ARGUS_FLAG_NVTX && r.u.op.dtype == ARGUS_DTYPE_INT8);
        CHECK(r.u.op.comm == (ops < 4 ? 0xbeefu : 0u));
        CHECK(r.u.op.count == (ops < 4 ? 4096u : 2048u));
        CHECK(r.u.op.seq == (ops < 4 ? ops : ops - 4));
        switch (ops) {
        case 0:
        case 4:
            CHECK(r.u.op.func == ARGUS_FUNC_ALLREDUCE && r.u.op.peer == -1);
            break;
        case 1:
            CHECK(r.u.op.func == ARGUS_FUNC_SEND && r.u.op.peer == 5);
            break;
        case 2:
        case 6:
            CHECK(r.u.op.func == ARGUS_FUNC_ALLGATHER && r.u.op.peer == -1);
            break;
        case 3:
            CHECK(r.u.op.func == ARGUS_FUNC_REDUCE && r.u.op.peer == 5);
            break;
        default:
            CHECK(r.u.op.func == ARGUS_FUNC_RECV && r.u.op.peer == 7);
        }
        ops++;
    }
    CHECK(ops == 7 && comms == 1 && marks_seen == 0);
    /* With the plugin in use they are passed over. */
    view.header->nccl_interface = 5;
    nccl_call(domain, NCCL_SID_ALLREDUCE, &ours, 24);
    CHECK(testkit_count(&view, ARGUS_REC_OP) == 0);
}

static void test_nccl_payloads(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(nccl_payloads, NULL), 0);
}

/* ---- not wanted, and nonsense ---- */

static void refused(void *unused)
{
    struct nvtx_extension module = {3, 8, NX_PAYLOAD_MODULE, 0, 0, NULL};

    (void)unused;
    CHECK(InitializeInjectionNvtx2(NULL) == 0);
    CHECK(InitializeInjectionNvtxExtension(NULL) == 0);
    CHECK(InitializeInjectionNvtxExtension(&module) == 0);
    setenv("ARGUS_SOURCES", "cupti", 1);
    CHECK(InitializeInjectionNvtx2(export_table) == 0);
    unsetenv("ARGUS_SPOOL");
    unsetenv("ARGUS_SOURCES");
    CHECK(InitializeInjectionNvtx2(export_table) == 0);
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(refused, NULL), 0);
}

#ifdef HAVE_NVTX3_NVTOOLSEXT_H
/* NVTX's hook for a library that is linked in. */
extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;

static void genuine(void *unused)
{
    nvtxDomainHandle_t domain;
    nvtxStringHandle_t string;
    nvtxEventAttributes_t a;
    struct seen seen[8];
    nvtxRangeId_t id;
    struct view view;

    (void)unused;
    InitializeInjectionNvtx2_fnptr =
        (NvtxInitializeInjectionNvtxFunc_t)(void (*)(void))InitializeInjectionNvtx2;
    CHECK(argus_ring_open() == 0);
    nvtxRangePushA("plain");
    nvtxRangePop();
    domain = nvtxDomainCreateA("megatron");
    string = nvtxDomainRegisterStringA(domain, "optimizer");
    memset(&a, 0, sizeof(a));
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = string;
    nvtxDomainRangePushEx(domain, &a);
    nvtxDomainRangePop(domain);
    id = nvtxRangeStartA("long one");
    nvtxRangeEnd(id);
    nvtxMarkA("instant");
    nvtxRangePushA("outer");
    nvtxRangePushW(L"wide");
    nvtxRangePop();
    nvtxRangePop();
    CHECK(testkit_open(&view, testkit_here));
    CHECK(marks(&view, seen, 8) == 6);
    CHECK(strcmp(seen[0].name, "plain") == 0);
    CHECK(strcmp(seen[1].name, "optimizer") == 0 && strcmp(seen[1].domain, "megatron") == 0);
    CHECK(strcmp(seen[2].name, "long one") == 0);
    CHECK(strcmp(seen[3].name, "instant") == 0 && seen[3].length == 0);
    CHECK(strcmp(seen[4].name, "wide") == 0 && strcmp(seen[5].name, "outer") == 0);
}

static void test_genuine_client(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(genuine, NULL), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_gpu, setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_ranges, setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_counting_names, setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_nccl_payloads, setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, testkit_teardown),
#ifdef HAVE_NVTX3_NVTOOLSEXT_H
        cmocka_unit_test_setup_teardown(test_genuine_client, setup, testkit_teardown),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
