/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/names.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 65536u
#define KERNELS_MAX 65536u
#define NAME_BYTES 4096

void argus_names_init(struct argus_names *n, argus_timeline_writer_t *w)
{
    memset(n, 0, sizeof(*n));
    n->w = w;
}

void argus_names_free(struct argus_names *n)
{
    free(n->facts);
    free(n->index);
    free(n->kernels);
    memset(n, 0, sizeof(*n));
}

static uint32_t *find_fact(const struct argus_names *n, uint32_t offset)
{
    uint32_t i = (offset * 2654435761u) & (n->cap_index - 1);

    while (n->index[i] && n->facts[n->index[i] - 1].offset != offset)
        i = (i + 1) & (n->cap_index - 1);
    return &n->index[i];
}

static int grow(struct argus_names *n)
{
    uint32_t capacity = n->cap_facts ? 2 * n->cap_facts : 256;
    struct argus_name_facts *facts = realloc(n->facts, capacity * sizeof(*facts));
    uint32_t *index;

    if (!facts)
        return -1;
    n->facts = facts;
    index = calloc(2 * capacity, sizeof(*index));
    if (!index)
        return -1;
    free(n->index);
    n->index = index;
    n->cap_facts = capacity;
    n->cap_index = 2 * capacity;
    for (uint32_t i = 0; i < n->n_facts; i++)
        *find_fact(n, n->facts[i].offset) = i + 1;
    return 0;
}

static const struct argus_name_facts nothing = {.string = ARGUS_NONE};

const struct argus_name_facts *argus_names_at(const struct argus_names *n, uint32_t index)
{
    return index < n->n_facts ? &n->facts[index] : &nothing;
}

static uint32_t add(struct argus_names *n, struct argus_ring *ring, uint32_t offset)
{
    struct argus_name_facts f = {.offset = offset};
    char text[NAME_BYTES];
    int length = argus_ring_name(ring, offset, text, sizeof(text));

    if (n->n_facts == n->cap_facts && grow(n) < 0)
        return ARGUS_NONE;
    if (length < 0) {
        strcpy(text, "(unknown)");
        length = (int)strlen(text);
    }
    for (int i = 0; i < length; i++) { /* nobody's screen or report shall obey a name */
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    }
    f.string = argus_timeline_add_string(n->w, text, (size_t)length);
    f.family = (uint8_t)argus_kernel_family(text);
    f.phase = argus_kernel_phase(text);
    f.comm_func = (uint8_t)argus_kernel_comm_func(text);
    f.mark_kind = (uint16_t)argus_mark_kind_of(text);
    n->facts[n->n_facts] = f;
    *find_fact(n, offset) = n->n_facts + 1;
    return n->n_facts++;
}

uint32_t argus_names_find(struct argus_names *n, struct argus_ring *ring, uint32_t offset)
{
    if (n->cap_index) {
        uint32_t found = *find_fact(n, offset);

        if (found)
            return found - 1;
    }
    /* a ring that claims more names than that repeats none: they share the last one's facts */
    return n->n_facts < NAMES_MAX ? add(n, ring, offset) : NAMES_MAX - 1;
}

void argus_names_save(const struct argus_names *n, struct argus_blob *b)
{
    argus_blob_put_u64(b, n->n_facts);
    for (uint32_t i = 0; i < n->n_facts; i++)
        argus_blob_put_u64(b, n->facts[i].offset);
    argus_blob_put(b, n->graphs, sizeof(n->graphs));
    argus_blob_put_u64(b, n->n_graphs);
    argus_blob_put_u64(b, n->newest_class);
}

void argus_names_restore(struct argus_names *n, struct argus_ring *ring, struct argus_blob *b)
{
    uint64_t facts = argus_blob_get_u64(b);

    for (uint64_t i = 0; i < facts && !b->failed; i++) {
        if (argus_names_find(n, ring, (uint32_t)argus_blob_get_u64(b)) != i)
            b->failed = 1;
    }
    argus_blob_get(b, n->graphs, sizeof(n->graphs));
    n->n_graphs = (uint32_t)argus_blob_get_u64(b);
    n->newest_class = (uint32_t)argus_blob_get_u64(b);
    if (n->n_graphs > sizeof(n->graphs) / sizeof(n->graphs[0]))
        b->failed = 1;
}

static struct argus_rec_kernel key_of(const struct argus_rec_kernel *k, uint32_t *hash)
{
    struct argus_rec_kernel key = *k;
    uint64_t w[4], h = 0;

    key.device = 0;
    key.graph = 0;
    key.graph_node = 0;
    memcpy(w, &key, sizeof(w));
    for (int i = 0; i < 3; i++) {
        h = (h ^ w[i]) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 32;
    }
    *hash = (uint32_t)h;
    return key;
}

int argus_names_kernel(const struct argus_names *n, const struct argus_rec_kernel *k,
                       uint32_t *class_id)
{
    struct argus_rec_kernel key;
    uint32_t i;

    if (!n->cap_kernels)
        return 0;
    key = key_of(k, &i);
    for (i &= n->cap_kernels - 1; n->kernels[i].used; i = (i + 1) & (n->cap_kernels - 1)) {
        if (!memcmp(&n->kernels[i].kernel, &key, sizeof(key))) {
            *class_id = n->kernels[i].class_id;
            return 1;
        }
    }
    return 0;
}

static void place(struct argus_kernel_key *kernels, uint32_t capacity,
                  const struct argus_kernel_key *entry)
{
    uint32_t i;

    key_of(&entry->kernel, &i);
    for (i &= capacity - 1; kernels[i].used; i = (i + 1) & (capacity - 1))
        ;
    kernels[i] = *entry;
}

void argus_names_remember(struct argus_names *n, const struct argus_rec_kernel *k,
                          uint32_t class_id)
{
    struct argus_kernel_key entry = {.class_id = class_id, .used = 1};
    uint32_t hash;

    if ((n->n_kernels + 1) * 2 > n->cap_kernels) {
        uint32_t capacity = n->cap_kernels ? 2 * n->cap_kernels : 512;
        struct argus_kernel_key *kernels;

        if (n->n_kernels >= KERNELS_MAX || !(kernels = calloc(capacity, sizeof(*kernels))))
            return;
        for (uint32_t i = 0; i < n->cap_kernels; i++) {
            if (n->kernels[i].used)
                place(kernels, capacity, &n->kernels[i]);
        }
        free(n->kernels);
        n->kernels = kernels;
        n->cap_kernels = capacity;
    }
    entry.kernel = key_of(k, &hash);
    place(n->kernels, n->cap_kernels, &entry);
    n->n_kernels++;
}

uint32_t argus_names_graph(struct argus_names *n, uint32_t graph)
{
    const uint32_t max = sizeof(n->graphs) / sizeof(n->graphs[0]);

    for (uint32_t i = 0; i < n->n_graphs; i++) {
        if (n->graphs[i] == graph)
            return i;
    }
    if (n->n_graphs == max)
        return max;
    n->graphs[n->n_graphs] = graph;
    return n->n_graphs++;
}
