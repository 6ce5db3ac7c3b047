/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5 marks a file that is being written in its superblock, and tools that
 * know nothing of SWMR (h5dump, h5ls) refuse a marked file for ever after a
 * crash.  What SWMR has flushed is consistent, so the writer takes the mark
 * off after each flush.
 *
 * Superblock version 3: signature (8 bytes), version, size of offsets, size of
 * lengths, flags, four offsets, then Jenkins' lookup3 of all that.
 */
#include <config.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/timeline/layout.h"

#define AT_VERSION 8
#define AT_OFFSET_BYTES 9
#define AT_FLAGS 11
#define AT_CHECKSUM 44
#define SUPERBLOCK_BYTES 48
#define FLAGS_WRITING 0x5 /* 1: open for writing, 4: by SWMR */

static uint32_t rotate(uint32_t x, int k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Bob Jenkins' lookup3 ("hashlittle") of `n` bytes, a positive multiple of 4, from seed 0. */
static uint32_t lookup3(const unsigned char *p, size_t n)
{
    static const int mix[6] = {4, 6, 8, 16, 19, 4}, final[7] = {14, 11, 25, 16, 4, 14, 24};
    uint32_t v[3];

    v[0] = v[1] = v[2] = 0xdeadbeefu + (uint32_t)n;
    for (; n > 12; n -= 12, p += 12) {
        for (int i = 0; i < 3; i++)
            v[i] += word(p + 4 * i);
        for (int i = 0; i < 6; i++) {
            uint32_t *x = &v[i % 3], *y = &v[(i + 1) % 3], *z = &v[(i + 2) % 3];

            *x = (*x - *z) ^ rotate(*z, mix[i]);
            *z += *y;
        }
    }
    for (size_t i = 0; i < n / 4; i++)
        v[i] += word(p + 4 * i);
    for (int i = 0; i < 7; i++) {
        uint32_t *x = &v[(i + 2) % 3], *y = &v[(i + 1) % 3];

        *x = (*x ^ *y) - rotate(*y, final[i]);
    }
    return v[2];
}

void tl_superblock_unmark(hid_t file)
{
    unsigned char block[SUPERBLOCK_BYTES];
    uint32_t sum;
    void *handle = NULL;
    int fd;

    if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || !handle)
        return;
    fd = *(int *)handle;
    if (pread(fd, block, sizeof(block), 0) != sizeof(block))
        return;
    /* Anything unexpected: leave the file to HDF5. */
    if (memcmp(block, "\211HDF\r\n\032\n", 8) || block[AT_VERSION] != 3 ||
        block[AT_OFFSET_BYTES] != 8 || lookup3(block, AT_CHECKSUM) != word(block + AT_CHECKSUM))
        return;
    if (!(block[AT_FLAGS] & FLAGS_WRITING))
        return;
    block[AT_FLAGS] &= (unsigned char)~FLAGS_WRITING;
    sum = lookup3(block, AT_CHECKSUM);
    for (int i = 0; i < 4; i++)
        block[AT_CHECKSUM + i] = (unsigned char)(sum >> (8 * i));
    if (pwrite(fd, block, sizeof(block), 0) != sizeof(block))
        return;
}
