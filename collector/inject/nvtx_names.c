/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inject/nvtx.h"

#include <string.h>
#include <wchar.h>

#define NAME_MAX_BYTES 200
#define DISTINCT_EXACT 4096 /* beyond this many names, numbers in names are folded */
#define KEEP_BYTES (128u << 10)

static uint32_t last_tail_names; /* atomic; names that came through here */

/* "aten::mm, seq = 123, op_id = 77": torch counts there. */
static size_t cut(const char *s, size_t n)
{
    const char *p = memchr(s, ',', n);

    while (p && (size_t)(p - s) + 7 <= n) {
        if (strncmp(p, ", seq =", 7) == 0 || strncmp(p, ", op_id", 7) == 0)
            return (size_t)(p - s);
        p = memchr(p + 1, ',', n - (size_t)(p + 1 - s));
    }
    return n;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Every run of digits becomes one '#'. */
static size_t fold(char *to, const char *s, size_t n)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        if (!digit(s[i]))
            to[m++] = s[i];
        else if (i == 0 || !digit(s[i - 1]))
            to[m++] = '#';
    }
    return m;
}

uint32_t argus_nvtx_name(const char *text)
{
    static const char profiler_step[] = "ProfilerStep#";
    char folded[NAME_MAX_BYTES];
    uint64_t before;
    uint32_t name;
    size_t n;

    if (!text)
        return ARGUS_NAME_NONE;
    n = cut(text, strnlen(text, NAME_MAX_BYTES));
    if (n > sizeof(profiler_step) - 1 &&
        memcmp(text, profiler_step, sizeof(profiler_step) - 1) == 0)
        return argus_name_n(profiler_step, sizeof(profiler_step) - 1);
    if (__atomic_load_n(&last_tail_names, __ATOMIC_RELAXED) > DISTINCT_EXACT) {
        n = fold(folded, text, n);
        text = folded;
    }
    before = __atomic_load_n(&argus_ring.header->names_tail, __ATOMIC_RELAXED);
    name = argus_name_n(text, n);
    if (unlikely(name >= before))
        __atomic_fetch_add(&last_tail_names, 1, __ATOMIC_RELAXED);
    return name;
}

uint32_t argus_nvtx_wide_name(const void *text)
{
    const wchar_t *w = text;
    char narrow[NAME_MAX_BYTES];
    size_t n = 0;

    if (!w)
        return ARGUS_NAME_NONE;
    for (; w[n] && n < sizeof(narrow) - 1; n++)
        narrow[n] = w[n] < 127 ? (char)w[n] : '?';
    narrow[n] = '\0';
    return argus_nvtx_name(narrow);
}

const char *argus_nvtx_keep(const char *text)
{
    static char arena[KEEP_BYTES];
    static uint32_t used; /* atomic */
    size_t n = text ? strnlen(text, NAME_MAX_BYTES) : 0;
    uint32_t at;

    if (!n || __atomic_load_n(&used, __ATOMIC_RELAXED) + n + 1 > KEEP_BYTES)
        return NULL;
    at = __atomic_fetch_add(&used, (uint32_t)n + 1, __ATOMIC_RELAXED);
    if (at + n + 1 > KEEP_BYTES)
        return NULL;
    memcpy(arena + at, text, n);
    arena[at + n] = '\0';
    return arena + at;
}
