/* SPDX-License-Identifier: Apache-2.0 */
#include "simtrain.h"

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t h = scramble(a + 0x9e3779b97f4a7c15ULL);

    h = scramble(h ^ (b + 0x3c6ef372fe94f82aULL));
    h = scramble(h ^ (c + 0xdaa66d2c7ddf743fULL));
    return scramble(h ^ (d + 0x78dde6e5fd29f054ULL));
}

double uniform(uint64_t h)
{
    return (double)(h >> 11) * 0x1p-53;
}

/* The sum of four uniform numbers of 16 bits, scaled to variance one. */
double gaussian(uint64_t h)
{
    double sum = 0;

    for (int i = 0; i < 4; i++, h >>= 16)
        sum += (double)(h & 0xffff) / 65536.0;
    return (sum - 2.0) * 1.7320508075688772;
}
