/* SPDX-License-Identifier: Apache-2.0 */
/* Nsight Systems' SQLite export: opening and asking it. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/import/nsys.h"

#define UNPACKED_MAX (INT64_C(64) << 30)
#define COPY_BYTES (256u << 10)

static int copy_out(gzFile gz, int fd, const char *path, argus_error_t *err)
{
    unsigned char *buffer = malloc(COPY_BYTES);
    int64_t total = 0;
    int n, code, rc = -1;

    if (!buffer)
        return argus_error(err, "%s: out of memory", path);
    while ((n = gzread(gz, buffer, COPY_BYTES)) > 0) {
        total += n;
        if (total > UNPACKED_MAX) {
            argus_error(err, "%s: unpacks to more than %lld GiB", path,
                        (long long)(UNPACKED_MAX >> 30));
            goto out;
        }
        for (int done = 0; done < n;) {
            ssize_t put = write(fd, buffer + done, (size_t)(n - done));

            if (put < 0) {
                argus_error(err, "%s: cannot unpack: %s", path, strerror(errno));
                goto out;
            }
            done += (int)put;
        }
    }
    gzerror(gz, &code);
    if (n < 0 || code == Z_BUF_ERROR) {
        argus_error(err, "%s: the file is truncated or damaged", path);
        goto out;
    }
    rc = 0;
out:
    free(buffer);
    return rc;
}

/* The database as a file that SQLite can open; `temp` is empty when it is the user's own. */
static int unpack(const char *path, char *temp, size_t size, argus_error_t *err)
{
    const char *dir = getenv("TMPDIR");
    gzFile gz = gzopen(path, "rb");
    int fd, rc, direct;

    temp[0] = '\0';
    if (!gz)
        return argus_error(err, "%s: %s", path, strerror(errno));
    direct = gzdirect(gz);
    if (direct) {
        gzclose_r(gz);
        return 0;
    }
    snprintf(temp, size, "%s/argus-nsys-XXXXXX", dir && *dir ? dir : "/tmp");
    fd = mkstemp(temp);
    if (fd < 0) {
        argus_error(err, "%s: cannot create a temporary file in %s: %s", path,
                    dir && *dir ? dir : "/tmp", strerror(errno));
        temp[0] = '\0';
        gzclose_r(gz);
        return -1;
    }
    rc = copy_out(gz, fd, path, err);
    close(fd);
    gzclose_r(gz);
    return rc;
}

/* "file:" with everything but plain characters escaped: SQLite reads '?' and '%' in URIs. */
static int uri_of(const char *path, char *uri, size_t size)
{
    size_t n = (size_t)snprintf(uri, size, "file:");

    for (; *path; path++) {
        int plain = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
                    (*path >= '0' && *path <= '9') || strchr("/._-", *path);

        if (n + 4 >= size)
            return -1;
        n += (size_t)snprintf(uri + n, size - n, plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    /* Immutable: no journal, no lock, nothing written beside the user's file. */
    return snprintf(uri + n, size - n, "?immutable=1") < (int)(size - n) ? 0 : -1;
}

/* What stands beside the file is not read with it: changes that never came in, or are to be undone. */
static int is_whole(const char *path, argus_error_t *err)
{
    static const char *const suffixes[] = {"-wal", "-journal"};
    char beside[4096];
    struct stat st;

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        int n = snprintf(beside, sizeof(beside), "%s%s", path, suffixes[i]);

        if (n > 0 && (size_t)n < sizeof(beside) && stat(beside, &st) == 0 && st.st_size > 0)
            return argus_error(err,
                               "%s: %s holds changes that are not in it: open and close the export "
                               "with sqlite3 once",
                               path, beside);
    }
    return 0;
}

/* Event times are of the target's clock, or count from the start of the capture. */
static int read_time_base(struct nsys_db *n, argus_error_t *err)
{
    int64_t clock = 0;
    sqlite3_stmt *s;
    int rc;

    n->time_base = 0;
    if (!nsys_has(n, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"))
        return 0;
    s = nsys_prepare(
        n, err, "SELECT utcEpochNs, %s FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
        nsys_has(n, "TARGET_INFO_SESSION_START_TIME", "systemClockNs") ? "systemClockNs" : "0");
    if (!s)
        return -1;
    rc = nsys_step(n, s, err);
    if (rc > 0) {
        n->time_base = sqlite3_column_int64(s, 0);
        clock = sqlite3_column_int64(s, 1);
    }
    sqlite3_finalize(s);
    if (rc < 0)
        return -1;
    if (n->time_base < 0 || n->time_base > INT64_C(1) << 61 || clock < 0 || clock > n->time_base)
        n->time_base = clock = 0;
    n->time_base -= clock;
    return 0;
}

int nsys_open(struct nsys_db *n, const char *path, argus_error_t *err)
{
    char temp[4096], uri[3 * 4096];
    struct stat st;
    int rc = -1;

    n->path = path;
    n->db = NULL;
    if (stat(path, &st) != 0)
        return argus_error(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return argus_error(err, "%s: not a regular file", path);
    if (unpack(path, temp, sizeof(temp), err) != 0 || (!temp[0] && is_whole(path, err) != 0))
        goto out;
    if (uri_of(temp[0] ? temp : path, uri, sizeof(uri)) != 0) {
        argus_error(err, "%s: path is too long", path);
        goto out;
    }
    if (sqlite3_open_v2(uri, &n->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        argus_error(err, "%s: cannot open: %s", path, sqlite3_errmsg(n->db));
        goto out;
    }
    sqlite3_db_config(n->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(n->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(n->db, SQLITE_LIMIT_LENGTH, 64 << 20);
    if (sqlite3_exec(n->db, "PRAGMA cell_size_check=ON; SELECT count(*) FROM sqlite_master", NULL,
                     NULL, NULL) != SQLITE_OK) {
        argus_error(err, "%s: not an SQLite export: %s", path, sqlite3_errmsg(n->db));
        goto out;
    }
    if (nsys_has(n, "CUPTI_ACTIVITY_KIND_KERNEL", "start") && !nsys_has(n, "StringIds", "value")) {
        argus_error(err, "%s: no table StringIds: not a whole export of Nsight Systems", path);
        goto out;
    }
    if (!nsys_has(n, "CUPTI_ACTIVITY_KIND_KERNEL", "start")) {
        argus_error(err,
                    "%s: no table CUPTI_ACTIVITY_KIND_KERNEL: not an export of Nsight Systems, or "
                    "nothing ran on a GPU",
                    path);
        goto out;
    }
    rc = read_time_base(n, err);
out:
    if (temp[0])
        unlink(temp);
    if (rc != 0)
        nsys_close(n);
    return rc;
}

void nsys_close(struct nsys_db *n)
{
    sqlite3_close(n->db);
    n->db = NULL;
}

int nsys_has(const struct nsys_db *n, const char *table, const char *column)
{
    sqlite3_stmt *s = NULL;
    int found = 0;

    if (sqlite3_prepare_v2(n->db,
                           "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND "
                           "sql NOT LIKE 'CREATE VIRTUAL%' AND (?2 IS NULL OR EXISTS "
                           "(SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2))",
                           -1, &s, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    if (column)
        sqlite3_bind_text(s, 2, column, -1, SQLITE_STATIC);
    found = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return found;
}

const char *nsys_or_zero(const struct nsys_db *n, const char *table, const char *column)
{
    return nsys_has(n, table, column) ? column : "0";
}

sqlite3_stmt *nsys_prepare(const struct nsys_db *n, argus_error_t *err, const char *format, ...)
{
    sqlite3_stmt *s = NULL;
    char sql[2048];
    va_list ap;
    int length;

    va_start(ap, format);
    length = vsnprintf(sql, sizeof(sql), format, ap);
    va_end(ap);
    if (length < 0 || (size_t)length >= sizeof(sql) ||
        sqlite3_prepare_v2(n->db, sql, -1, &s, NULL) != SQLITE_OK) {
        argus_error(err, "%s: %s", n->path, sqlite3_errmsg(n->db));
        return NULL;
    }
    return s;
}

int nsys_step(const struct nsys_db *n, sqlite3_stmt *s, argus_error_t *err)
{
    int rc = sqlite3_step(s);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    return argus_error(err, "%s: %s", n->path, sqlite3_errmsg(n->db));
}
