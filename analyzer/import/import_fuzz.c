/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import_fuzz [SECONDS [SEED]]: imports damaged copies of a small Kineto trace
 * (plain and gzip) and of a small nsys export.  A round passes when the
 * importer returns; an error must have words.
 */
#include <config.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/import/import.h"

static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

/* Bits, bytes, copied ranges, and words that JSON and numbers trip over. */
static size_t damage(unsigned char *b, size_t n, size_t room)
{
    static const char *const words[] = {"-1",      "1e999", "18446744073709551616", "\"\"", "null",
                                        "[",       "}",     "9223372036854775807",  ":",    "{",
                                        "\\u0000", "0.",    "99999999999",          "\"",   ","};

    for (uint64_t i = 1 + next(4); i > 0; i--) {
        size_t at = next(n), length = 1 + next(24);
        const char *word = words[next(sizeof(words) / sizeof(words[0]))];

        if (length > n - at)
            length = n - at;
        switch (next(6)) {
        case 0:
            b[at] ^= (unsigned char)(1u << next(8));
            break;
        case 1:
            memset(b + at, next(2) ? 0xff : 0, length);
            break;
        case 2:
            memmove(b + at, b + next(n - length + 1), length);
            break;
        case 3:
            if (n + strlen(word) <= room) {
                memmove(b + at + strlen(word), b + at, n - at);
                memcpy(b + at, word, strlen(word));
                n += strlen(word);
            }
            break;
        case 4:
            for (size_t k = 0; k < length; k++)
                b[at + k] = (unsigned char)next(256);
            break;
        default:
            if (next(6) == 0)
                n = 1 + next(n);
            break;
        }
    }
    return n;
}

static char *kineto(size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);

    if (!f)
        return NULL;
    fputs(
        "{\"schemaVersion\":1,\"baseTimeNanoseconds\":1700000000000000000,\"distributedInfo\":"
        "{\"rank\":1,\"world_size\":4,\"nccl_version\":\"2.21.5\",\"pg_config\":[{\"pg_name\":"
        "\"3\",\"pg_size\":2,\"ranks\":[1,3]}]},\"deviceProperties\":[{\"id\":0,\"name\":\"GPU\"}]"
        ",\"traceEvents\":[",
        f);
    for (int i = 0; i < 12; i++) {
        fprintf(f,
                "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,"
                "\"tid\":1,\"ts\":%d.5,\"dur\":100,\"args\":{}},",
                i, i * 100);
        fprintf(f,
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,"
                "\"tid\":1,\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},",
                i * 100 + 2, i + 1);
        fprintf(
            f,
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm%d\",\"pid\":0,\"tid\":7,\"ts\":%d,"
            "\"dur\":20.25,\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d,\"grid\":[%d,"
            "1,1],\"block\":[128,1,1]}},",
            i % 3, i * 100 + 40, i + 1, i % 3 + 1);
        fprintf(f,
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_bf16\","
                "\"pid\":0,\"tid\":9,\"ts\":%d,\"dur\":9,\"args\":{\"device\":0,\"stream\":9,"
                "\"Collective name\":\"allreduce\",\"In msg nelems\":1024,\"Out msg nelems\":1024,"
                "\"dtype\":\"BFloat16\",\"Group size\":2,\"Process Group Name\":\"3\","
                "\"Process Group Ranks\":\"[1, 3]\"}},",
                i * 100 + 70);
    }
    fputs(
        "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD\",\"ts\":5,\"dur\":1,\"args\":"
        "{\"stream\":7,\"bytes\":64}}]}\n",
        f);
    return fclose(f) == 0 ? text : NULL;
}

static int make_export(const char *path)
{
    static const char sql[] =
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
        "INSERT INTO StringIds VALUES (1,'gemm'),(2,'ncclDevKernel_AllReduce'),"
        "(3,'cudaLaunchKernel'),(4,'ncclAllReduce'),(5,'step 1'),(6,'cudaStreamSynchronize');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX "
        "INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,"
        "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind "
        "INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,"
        "correlationId INTEGER, nameId INTEGER);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
        "globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonText TEXT, binaryData BLOB);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO "
        "CUPTI_ACTIVITY_KIND_KERNEL SELECT i*1000, i*1000+500, 0, 7, i, 16777216, 1 + i%2, 4, 1, 1,"
        "128, 1, 1 FROM n;"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 0, 7, 90, 16777216, 4096, 1);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO "
        "CUPTI_ACTIVITY_KIND_RUNTIME SELECT i*1000-300, i*1000-200, 16777221, i, 3 FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO "
        "NVTX_EVENTS SELECT i*1000-400, i*1000-100, 59, NULL, 16777221, 4, 1, NULL,"
        "x'efbeadde000000000010000000000000' FROM n;"
        "INSERT INTO NVTX_EVENTS VALUES (0, 90000, 59, NULL, 16777221, 5, NULL, NULL, NULL);";
    sqlite3 *db;
    int rc = sqlite3_open(path, &db) == SQLITE_OK &&
             sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;

    sqlite3_close(db);
    return rc ? 0 : -1;
}

static unsigned char *load(const char *path, size_t *n)
{
    struct stat st;
    unsigned char *bytes = NULL;
    int fd = open(path, O_RDONLY);

    if (fd >= 0 && fstat(fd, &st) == 0 && (bytes = malloc((size_t)st.st_size))) {
        *n = (size_t)st.st_size;
        if (read(fd, bytes, *n) != (ssize_t)*n)
            *n = 0;
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

static int store(const char *path, const unsigned char *b, size_t n, int zip)
{
    int fd, rc;

    if (zip) {
        gzFile gz = gzopen(path, "wb1");

        rc = gz && gzwrite(gz, b, (unsigned)n) == (int)n ? 0 : -1;
        return gz && gzclose(gz) == Z_OK ? rc : -1;
    }
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    rc = fd >= 0 && write(fd, b, n) == (ssize_t)n ? 0 : -1;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* 1: imported, 0: refused, -1: refused without a word. */
static int import(const char *path, const char *dir, int nsys)
{
    struct import_output out = {.dir = dir, .replace = 1};
    struct import_report report;
    argus_error_t err = {""};
    int rc = nsys ? import_nsys(&path, 1, &out, NULL, NULL, &report, &err)
                  : import_kineto(&path, 1, &out, NULL, NULL, &report, &err);

    if (rc == 0)
        return 1;
    return err.text[0] ? 0 : -1;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    char dir[] = "/tmp/argus-fuzz-XXXXXX", job[64], files[2][64], command[128];
    unsigned char *good[2] = {NULL, NULL}, *bad = NULL;
    size_t size[2] = {0, 0}, room;
    unsigned long rounds = 0, imported = 0;
    time_t start = time(NULL);
    int rc = 1;

    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x2545f4914f6cdd1du;
    if (!mkdtemp(dir))
        return 1;
    snprintf(job, sizeof(job), "%s/job", dir);
    snprintf(files[0], sizeof(files[0]), "%s/rank-1.json", dir);
    snprintf(files[1], sizeof(files[1]), "%s/a.sqlite", dir);
    good[0] = (unsigned char *)kineto(&size[0]);
    if (make_export(files[1]) == 0)
        good[1] = load(files[1], &size[1]);
    room = (size[0] > size[1] ? size[0] : size[1]) + 4096;
    bad = malloc(room);
    if (!good[0] || !good[1] || !size[1] || !bad || store(files[0], good[0], size[0], 0) != 0 ||
        import(files[0], job, 0) != 1 || import(files[1], job, 1) != 1) {
        fputs("import_fuzz: the undamaged files do not import\n", stderr);
        goto out;
    }
    while (difftime(time(NULL), start) < seconds) {
        int nsys = rounds % 2 != 0, got;
        size_t n;

        memcpy(bad, good[nsys], size[nsys]);
        n = damage(bad, size[nsys], room);
        if (store(files[nsys], bad, n, next(4) == 0) != 0)
            goto out;
        got = import(files[nsys], job, nsys);
        if (got < 0) {
            fputs("import_fuzz: an error without words\n", stderr);
            goto out;
        }
        imported += got > 0;
        rounds++;
    }
    printf("1..1\nok 1 - %lu damaged traces, %lu of them still good enough to import\n", rounds,
           imported);
    rc = 0;
out:
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command) != 0)
        rc = 1;
    free(good[0]);
    free(good[1]);
    free(bad);
    return rc;
}
