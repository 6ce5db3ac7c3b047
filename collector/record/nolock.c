/* SPDX-License-Identifier: Apache-2.0 */
/* LD_PRELOAD, for the tests: a file system that has no flock(). */
#include <errno.h>
#include <sys/file.h>

int flock(int fd, int operation)
{
    (void)fd;
    (void)operation;
    errno = ENOSYS;
    return -1;
}
