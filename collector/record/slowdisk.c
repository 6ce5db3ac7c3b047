/* SPDX-License-Identifier: Apache-2.0 */
/* LD_PRELOAD, for the tests: writes to files whose path holds SLOWDISK_PATH take SLOWDISK_MS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void delay(int fd)
{
    const char *part = getenv("SLOWDISK_PATH"), *ms = getenv("SLOWDISK_MS");
    char link[64], path[4096];
    struct timespec nap;
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (!part || !ms || n < 0)
        return;
    path[n] = '\0';
    if (!strstr(path, part) || !strstr(path, ".h5"))
        return;
    nap.tv_sec = atol(ms) / 1000;
    nap.tv_nsec = atol(ms) % 1000 * 1000000;
    nanosleep(&nap, NULL);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at);

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);

    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "pwrite");

        memcpy(&real, &symbol, sizeof(symbol));
    }
    delay(fd);
    return real(fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);

    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "pwrite64");

        memcpy(&real, &symbol, sizeof(symbol));
    }
    delay(fd);
    return real(fd, data, n, at);
}
