/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/util/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOB_MAGIC UINT64_C(0x31424f4c42475241) /* "ARGBLOB1" */

struct blob_header {
    uint64_t magic, bytes, sum;
};

void argus_blob_put(struct argus_blob *b, const void *data, size_t n)
{
    if (b->failed)
        return;
    if (b->capacity - b->n < n) {
        size_t capacity = b->capacity ? b->capacity : 4096;
        unsigned char *p;

        while (capacity - b->n < n)
            capacity *= 2;
        p = realloc(b->data, capacity);
        if (!p) {
            b->failed = 1;
            return;
        }
        b->data = p;
        b->capacity = capacity;
    }
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

void argus_blob_put_u64(struct argus_blob *b, uint64_t v)
{
    argus_blob_put(b, &v, sizeof(v));
}

void argus_blob_put_array(struct argus_blob *b, const void *data, size_t n, size_t element)
{
    argus_blob_put_u64(b, n);
    argus_blob_put(b, data, n * element);
}

void argus_blob_get(struct argus_blob *b, void *data, size_t n)
{
    if (b->failed || b->n - b->at < n) {
        b->failed = 1;
        memset(data, 0, n);
        return;
    }
    memcpy(data, b->data + b->at, n);
    b->at += n;
}

uint64_t argus_blob_get_u64(struct argus_blob *b)
{
    uint64_t v;

    argus_blob_get(b, &v, sizeof(v));
    return v;
}

void *argus_blob_get_array(struct argus_blob *b, size_t element, size_t max, size_t reserve,
                           size_t *n)
{
    uint64_t count = argus_blob_get_u64(b);
    void *p = NULL;

    *n = 0;
    if (b->failed || count > max || count > (b->n - b->at) / element) {
        b->failed = 1;
        return NULL;
    }
    p = malloc((count > reserve ? count : reserve ? reserve : 1) * element);
    if (!p) {
        b->failed = 1;
        return NULL;
    }
    argus_blob_get(b, p, count * element);
    *n = count;
    return p;
}

/* Four lanes, so that megabytes cost little. */
static uint64_t checksum(const unsigned char *data, size_t n)
{
    uint64_t h[4] = {1, 2, 3, 4}, v;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        for (int k = 0; k < 4; k++) {
            memcpy(&v, data + i + 8 * k, sizeof(v));
            h[k] = (h[k] ^ v) * UINT64_C(0x9e3779b97f4a7c15);
            h[k] ^= h[k] >> 32;
        }
    }
    for (; i < n; i++)
        h[0] = (h[0] ^ data[i]) * UINT64_C(0x100000001b3);
    return h[0] ^ (h[1] << 1) ^ (h[2] << 2) ^ (h[3] << 3) ^ n;
}

static int write_all(int fd, const void *data, size_t n)
{
    const char *p = data;

    while (n) {
        ssize_t done = write(fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

int argus_blob_store(const struct argus_blob *b, const char *path)
{
    struct blob_header h = {.magic = BLOB_MAGIC, .bytes = b->n, .sum = checksum(b->data, b->n)};
    char temp[4352];
    int fd, saved;

    if (b->failed) {
        errno = ENOMEM;
        return -1;
    }
    if ((size_t)snprintf(temp, sizeof(temp), "%s.tmp", path) >= sizeof(temp)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (write_all(fd, &h, sizeof(h)) < 0 || write_all(fd, b->data, b->n) < 0) {
        saved = errno;
        close(fd);
        unlink(temp);
        errno = saved;
        return -1;
    }
    close(fd);
    return rename(temp, path);
}

static int read_all(int fd, void *data, size_t n)
{
    char *p = data;

    while (n) {
        ssize_t done = read(fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

int argus_blob_load(struct argus_blob *b, const char *path, size_t max)
{
    struct blob_header h;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc = -1;

    memset(b, 0, sizeof(*b));
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read_all(fd, &h, sizeof(h)) < 0 ||
        h.magic != BLOB_MAGIC || h.bytes > max || (uint64_t)st.st_size < sizeof(h) ||
        h.bytes != (uint64_t)st.st_size - sizeof(h))
        goto out;
    b->data = malloc(h.bytes + 1);
    if (!b->data || read_all(fd, b->data, h.bytes) < 0)
        goto out;
    b->n = b->capacity = h.bytes;
    if (checksum(b->data, b->n) == h.sum)
        rc = 0;
out:
    close(fd);
    if (rc < 0)
        argus_blob_free(b);
    return rc;
}

void argus_blob_free(struct argus_blob *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}
