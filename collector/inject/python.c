/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "collector/inject/python.h"

#include "collector/inject/oldglibc.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES 128
#define THREADS_WALKED 256
#define FRAME_BYTES 96
#define STATE_BYTES 256
#define CODE_BYTES 168
#define TEXT_BYTES 160
#define CACHE 512
#define NO_FIELD 0xffffu

/* Where things are, in bytes; 64-bit builds with the GIL. */
struct layout {
    uint16_t runtime_interp, interp_threads;
    uint16_t state_next, state_native, state_pthread, state_frame;
    uint16_t cframe_frame; /* NO_FIELD: state_frame is the frame itself */
    uint16_t frame_back, frame_code, frame_owner;
    uint16_t code_file, code_name, code_line;
    uint16_t ascii_data, wide_data;
};

static const struct layout layout_38_310 = {32, 8,        8,   NO_FIELD, 176, 24, NO_FIELD, 24,
                                            32, NO_FIELD, 104, 112,      40,  48, 72};
static const struct layout layout_311 = {40, 16, 8,   160, NO_FIELD, 56, 8, 48,
                                         32, 69, 112, 120, 72,       48, 72};
static const struct layout layout_312 = {40, 72, 8,   144, NO_FIELD, 56, 0, 8,
                                         0,  70, 112, 120, 68,       40, 56};

static struct layout py;
static uintptr_t runtime, code_type, text_type;
static size_t pthread_tid_at; /* within glibc's thread descriptor */
static pid_t self;

static bool read_memory(uintptr_t from, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)from, n};

    return from >= 4096 && process_vm_readv(self, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* As many bytes as there are before a hole; 0 on failure. */
static size_t read_some(uintptr_t from, void *to, size_t n)
{
    struct iovec local = {to, n}, remote[2];
    size_t first = 4096 - (from & 4095);
    unsigned parts = 1;
    ssize_t got;

    if (from < 4096)
        return 0;
    /* Partial transfers happen at the borders of the pieces: one a page. */
    remote[0] = (struct iovec){(void *)from, first < n ? first : n};
    if (first < n) {
        remote[1] = (struct iovec){(void *)(from + first), n - first};
        parts = 2;
    }
    got = process_vm_readv(self, &local, 1, remote, parts, 0);
    return got < 0 ? 0 : (size_t)got;
}

static uintptr_t pointer_at(const uint8_t *bytes, size_t at)
{
    uintptr_t v;

    memcpy(&v, bytes + at, sizeof(v));
    return v;
}

/* glibc keeps the kernel's thread id in its descriptor; where, we see in our
 * own.  Needed up to 3.10, whose thread states know only pthread_self(). */
static size_t find_tid_offset(void)
{
    uint8_t descriptor[1024];
    int32_t tid = (int32_t)syscall(SYS_gettid), v;
    size_t n = read_some((uintptr_t)pthread_self(), descriptor, sizeof(descriptor));

    for (size_t at = 0; at + 4 <= n; at += 4) {
        memcpy(&v, descriptor + at, 4);
        if (v == tid)
            return at;
    }
    return 0;
}

static uint16_t narrow(uint64_t v)
{
    return v < NO_FIELD ? (uint16_t)v : NO_FIELD;
}

/* From 3.13 on the runtime begins with a table of its own offsets, whose
 * layout holds within one minor. */
static bool layout_from_table(void)
{
    uint64_t w[48];

    if (!read_memory(runtime, w, sizeof(w)) || memcmp(w, "xdebugpy", 8) != 0)
        return false;
    if (w[1] >> 16 != 0x030d || w[2] != 0)
        return false;
    memset(&py, 0xff, sizeof(py));
    py.runtime_interp = narrow(w[5]);
    py.interp_threads = narrow(w[9]);
    py.state_next = narrow(w[21]);
    py.state_frame = narrow(w[23]);
    py.state_native = narrow(w[25]);
    py.frame_back = narrow(w[29]);
    py.frame_code = narrow(w[30]);
    py.frame_owner = narrow(w[33]);
    py.code_file = narrow(w[35]);
    py.code_name = narrow(w[36]);
    py.code_line = narrow(w[39]);
    py.ascii_data = 40;
    py.wide_data = 56;
    return py.state_next + 8u <= STATE_BYTES && py.state_frame + 8u <= STATE_BYTES &&
           py.state_native + 8u <= STATE_BYTES && py.frame_back + 8u <= FRAME_BYTES &&
           py.frame_code + 8u <= FRAME_BYTES && py.frame_owner < FRAME_BYTES &&
           py.code_file + 8u <= CODE_BYTES && py.code_name + 8u <= CODE_BYTES &&
           py.code_line + 4u <= CODE_BYTES;
}

static uintptr_t symbol(const char *name)
{
    return (uintptr_t)dlsym(RTLD_DEFAULT, name);
}

enum python_found argus_python_find(void)
{
    const char *(*get_version)(void) = NULL;
    uintptr_t address = symbol("Py_GetVersion");
    const char *version;
    uint64_t probe;
    int minor;

    runtime = symbol("_PyRuntime");
    code_type = symbol("PyCode_Type");
    text_type = symbol("PyUnicode_Type");
    if (!address)
        return PYTHON_NONE;
    if (!runtime || !code_type || !text_type)
        return PYTHON_UNKNOWN; /* before 3.7 */
    self = getpid();
    if (!read_memory(runtime, &probe, sizeof(probe)))
        return PYTHON_DENIED;
    memcpy(&get_version, &address, sizeof(address));
    version = get_version();
    if (!version || strncmp(version, "3.", 2) != 0 || strstr(version, "free-threading"))
        return PYTHON_UNKNOWN;
    minor = atoi(version + 2);
    switch (minor) {
    case 8:
    case 9:
    case 10:
        py = layout_38_310;
        pthread_tid_at = find_tid_offset();
        return pthread_tid_at ? PYTHON_KNOWN : PYTHON_UNKNOWN;
    case 11:
        py = layout_311;
        return PYTHON_KNOWN;
    case 12:
        py = layout_312;
        return PYTHON_KNOWN;
    case 13:
        return layout_from_table() ? PYTHON_KNOWN : PYTHON_UNKNOWN;
    default:
        return PYTHON_UNKNOWN;
    }
}

static uint32_t thread_id(const uint8_t *state)
{
    uintptr_t descriptor;
    uint32_t tid = 0;

    if (py.state_native != NO_FIELD) {
        memcpy(&tid, state + py.state_native, sizeof(tid));
        return tid;
    }
    descriptor = pointer_at(state, py.state_pthread);
    if (!read_memory(descriptor + pthread_tid_at, &tid, sizeof(tid)))
        return 0;
    return tid;
}

size_t argus_python_threads(struct python_thread *threads, size_t max)
{
    uint8_t bytes[STATE_BYTES];
    uintptr_t interp, state;
    size_t n = 0;

    if (!read_memory(runtime + py.runtime_interp, &interp, sizeof(interp)) ||
        !read_memory(interp + py.interp_threads, &state, sizeof(state)))
        return 0;
    for (unsigned i = 0; state && i < THREADS_WALKED && n < max; i++) {
        if (!read_memory(state, bytes, sizeof(bytes)))
            return 0;
        threads[n].state = state;
        threads[n].tid = thread_id(bytes);
        n += threads[n].tid != 0;
        state = pointer_at(bytes, py.state_next);
    }
    return n;
}

/* A str as bytes; what is not ASCII reads '?'.  Its type is checked: memory
 * that is no longer a string is not taken for one. */
static bool read_text(uintptr_t object, char *to, size_t size, size_t *length)
{
    uint8_t bytes[TEXT_BYTES + 72];
    uint64_t n;
    uint32_t state;
    unsigned kind;
    size_t got = read_some(object, bytes, sizeof(bytes)), data;

    if (got < 40 || pointer_at(bytes, 8) != text_type)
        return false;
    memcpy(&n, bytes + 16, sizeof(n));
    memcpy(&state, bytes + 32, sizeof(state));
    kind = (state >> 2) & 7;
    if (!((state >> 5) & 1) || n > 4096 || (kind != 1 && kind != 2 && kind != 4))
        return false;
    data = (state >> 6) & 1 ? py.ascii_data : py.wide_data;
    if (n > size)
        n = size;
    if (data + n * kind > got)
        n = got > data ? (got - data) / kind : 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t low = bytes[data + i * kind];
        bool plain = low >= 32 && low < 127 && low != ';';

        for (unsigned k = 1; k < kind; k++)
            plain = plain && bytes[data + i * kind + k] == 0;
        to[i] = plain ? (char)low : '?';
    }
    *length = n;
    return n > 0;
}

/* Frames as text, by the identity of their code object. */
static struct {
    uintptr_t code, file, name;
    int32_t line;
    uint8_t length;
    char text[110];
} cache[CACHE];

/* The last two parts of a path say enough and keep stacks short. */
static const char *short_path(const char *path, size_t n, size_t *out)
{
    unsigned slashes = 0;
    size_t i = n;

    while (i > 0 && !(path[i - 1] == '/' && ++slashes == 2))
        i--;
    *out = n - i;
    return path + i;
}

static bool frame_text(uintptr_t code, const char **text, size_t *length)
{
    char file[TEXT_BYTES], name[TEXT_BYTES / 2];
    size_t file_n, name_n, short_n, i = (code >> 5) % CACHE;
    uintptr_t file_object, name_object;
    uint8_t bytes[CODE_BYTES];
    const char *path;
    int32_t line;
    int n;

    if (!read_memory(code, bytes, sizeof(bytes)) || pointer_at(bytes, 8) != code_type)
        return false;
    file_object = pointer_at(bytes, py.code_file);
    name_object = pointer_at(bytes, py.code_name);
    memcpy(&line, bytes + py.code_line, sizeof(line));
    if (cache[i].code != code || cache[i].file != file_object || cache[i].name != name_object ||
        cache[i].line != line) {
        if (!read_text(file_object, file, sizeof(file), &file_n) ||
            !read_text(name_object, name, sizeof(name), &name_n))
            return false;
        path = short_path(file, file_n, &short_n);
        n = snprintf(cache[i].text, sizeof(cache[i].text), "%.*s (%.*s:%d)", (int)name_n, name,
                     (int)short_n, path, line);
        cache[i].length =
            (uint8_t)(n < (int)sizeof(cache[i].text) ? n : (int)sizeof(cache[i].text) - 1);
        cache[i].code = code;
        cache[i].file = file_object;
        cache[i].name = name_object;
        cache[i].line = line;
    }
    *text = cache[i].text;
    *length = cache[i].length;
    return true;
}

static bool first_frame(const struct python_thread *thread, uintptr_t *frame)
{
    uintptr_t p;

    if (!read_memory(thread->state + py.state_frame, &p, sizeof(p)))
        return false;
    if (p && py.cframe_frame != NO_FIELD && !read_memory(p + py.cframe_frame, &p, sizeof(p)))
        return false;
    *frame = p;
    return true;
}

/* Innermost frames come first and are put at the end of the buffer, so that
 * what does not fit is the outermost. */
bool argus_python_stack(const struct python_thread *thread, char *text, size_t size, size_t *length)
{
    uint8_t bytes[FRAME_BYTES];
    size_t at = size, n;
    uintptr_t frame, code;
    const char *one;
    unsigned depth;

    if (!first_frame(thread, &frame))
        return false;
    for (depth = 0; frame && depth < FRAMES; depth++) {
        if (!read_memory(frame, bytes, sizeof(bytes)))
            return false;
        frame = pointer_at(bytes, py.frame_back);
        if (py.frame_owner != NO_FIELD && bytes[py.frame_owner] >= 3)
            continue; /* the shim of a C call: no code object */
        code = pointer_at(bytes, py.frame_code);
        if (!frame_text(code, &one, &n))
            return false;
        if (at < n + 1 + 4) {
            at -= at >= 4 ? 4 : at;
            memcpy(text + at, "...;", at + 4 <= size ? 4 : 0);
            break;
        }
        if (at < size)
            text[--at] = ';';
        at -= n;
        memcpy(text + at, one, n);
    }
    *length = size - at;
    memmove(text, text + at, *length);
    return *length > 0;
}
