/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5's shuffle and deflate filters on one chunk, done here: the reader
 * inflates into a buffer of known size (HDF5's own filter grows its buffer as
 * long as the stream goes on), the writer decides when a chunk is written.
 */
#include <config.h>
#include <string.h>
#include <zlib.h>

#include "analyzer/timeline/layout.h"

#define DEFLATE_LEVEL 1

size_t tl_pack_bound(size_t bytes)
{
    return compressBound(bytes) + 1;
}

static void shuffle_bytes(const unsigned char *in, size_t rows, size_t row_bytes,
                          unsigned char *out)
{
    for (size_t j = 0; j < row_bytes; j++) {
        const unsigned char *p = in + j;

        for (size_t i = 0; i < rows; i++, p += row_bytes)
            *out++ = *p;
    }
}

static void unshuffle_bytes(const unsigned char *in, size_t rows, size_t row_bytes,
                            unsigned char *out)
{
    for (size_t j = 0; j < row_bytes; j++) {
        unsigned char *p = out + j;

        for (size_t i = 0; i < rows; i++, p += row_bytes)
            *p = *in++;
    }
}

size_t tl_pack(const void *in, size_t bytes, size_t row_bytes, size_t other_than, void *scratch,
               void *out)
{
    const void *source = in;
    uLongf n = compressBound(bytes);

    if (row_bytes > 1) {
        shuffle_bytes(in, bytes / row_bytes, row_bytes, scratch);
        source = scratch;
    }
    if (compress2(out, &n, source, bytes, DEFLATE_LEVEL) != Z_OK)
        return 0;
    if (n == other_than) /* what follows the end of a stream is not read */
        ((unsigned char *)out)[n++] = 0;
    return n;
}

int tl_unpack(const void *in, size_t in_bytes, int shuffle, int deflate, uint32_t mask,
              size_t row_bytes, void *scratch, void *out, size_t bytes)
{
    int do_shuffle = shuffle >= 0 && !(mask & (1u << shuffle)) && row_bytes > 1;
    int do_deflate = deflate >= 0 && !(mask & (1u << deflate));
    void *raw = do_shuffle ? scratch : out;

    if (do_deflate) {
        uLongf n = bytes;

        if (uncompress(raw, &n, in, in_bytes) != Z_OK || n != bytes)
            return -1;
    } else {
        if (in_bytes != bytes)
            return -1;
        memcpy(raw, in, bytes);
    }
    if (do_shuffle)
        unshuffle_bytes(scratch, bytes / row_bytes, row_bytes, out);
    return 0;
}
