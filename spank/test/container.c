/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test's stand-in for a container plugin: it does what pyxis does with an
 * unpacked image.  In task_init, as the user, the task gets a user and a mount
 * namespace of its own and the image as its root; what stands after it in
 * plugstack.conf runs in there.
 *
 *   optional container_check.so image=DIR bind=PATH...
 *
 * DIR/PATH must exist for every PATH.  A task that it fails for says so on its stderr.
 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(container_check, 1)

static int failed(const char *what)
{
    slurm_error("container_check: %s: %s", what, strerror(errno));
    return -1;
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), rc;

    if (fd < 0)
        return failed(path);
    rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : failed(path);
    close(fd);
    return rc;
}

static int own_namespaces(void)
{
    unsigned uid = getuid(), gid = getgid();
    char uids[64], gids[64];

    snprintf(uids, sizeof(uids), "%u %u 1\n", uid, uid);
    snprintf(gids, sizeof(gids), "%u %u 1\n", gid, gid);
    /* Having been root it owns no file in /proc; its exec would mend that. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return failed("unshare");
    if (write_text("/proc/self/setgroups", "deny") || write_text("/proc/self/uid_map", uids) ||
        write_text("/proc/self/gid_map", gids))
        return -1;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ? failed("/") : 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
    char cwd[1024], to[2048];
    const char *image = NULL;

    (void)sp;
    if (!getcwd(cwd, sizeof(cwd)))
        return failed("getcwd");
    if (own_namespaces())
        return -1;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "image=", 6)) {
            image = argv[i] + 6;
        } else if (image && !strncmp(argv[i], "bind=", 5)) {
            snprintf(to, sizeof(to), "%s%s", image, argv[i] + 5);
            if (mount(argv[i] + 5, to, NULL, MS_BIND | MS_REC, NULL))
                return failed(to);
        }
    }
    if (!image || chroot(image) || chdir(cwd))
        return failed(image ? image : "no image");
    return 0;
}
