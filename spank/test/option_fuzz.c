/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what users and their environments can put before the plugin: the
 * value of --argus, plugstack.conf items, path patterns, node lists and the
 * variables that step.conf is made of.
 *
 * With -DARGUS_LIBFUZZER and clang -fsanitize=fuzzer a fuzz target; else a
 * program: `option_fuzz [SECONDS [SEED]]` mutates its own samples.
 */
#include <config.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <argus/step.h>

#include "analyzer/util/stepconf.h"
#include "spank/facts.h"
#include "spank/keys.h"
#include "spank/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static void one_line(const char *line)
{
    for (const char *p = line; *p; p++)
        must(*p >= ' ' && *p <= '~', "messages are printable");
    must(strlen(line) < 1000, "messages are short");
}

/* Whatever came in, every value still passes its own check. */
static void keys_stay_valid(struct argus_keys *keys)
{
    static struct argus_keys copy;

    copy = *keys;
    for (int k = 0; k < ARGUS_KEY_COUNT; k++) {
        char item[ARGUS_KEY_TEXT_MAX + 32];
        char *argv[1] = {item};

        snprintf(item, sizeof(item), "%s=%s", argus_keys_name(k), keys->text[k]);
        argus_keys_plugstack(&copy, 1, argv, NULL);
    }
    must(!memcmp(copy.text, keys->text, sizeof(copy.text)), "values stay valid");
}

static void try_step_conf(const struct argus_keys *keys, const char *a, const char *b)
{
    static char variables[6][1100];
    const char *env[] = {variables[0], variables[1], variables[2], variables[3],
                         variables[4], variables[5], NULL};
    struct argus_facts f = {.slurm_job = 9, .array_task = ARGUS_NO_ARRAY, .node = b, .env = env};
    argus_error_t err;
    char *text;

    snprintf(variables[0], sizeof(variables[0]), "SLURM_SUBMIT_DIR=/%s", a);
    snprintf(variables[1], sizeof(variables[1]), "SLURM_JOB_NODELIST=%s", b);
    snprintf(variables[2], sizeof(variables[2]), "SLURM_STEP_NODELIST=%s", a);
    snprintf(variables[3], sizeof(variables[3]), "SLURM_HET_SIZE=%s", b);
    snprintf(variables[4], sizeof(variables[4]), "SLURM_JOB_ID=%s", a);
    snprintf(variables[5], sizeof(variables[5]), "SLURM_CLUSTER_NAME=%s", b);
    if (argus_facts_complete(&f, keys, &err))
        return;
    must(argus_path_sane(f.dir) && argus_path_sane(f.spool), "directories are sane");
    text = argus_facts_text(&f, keys, &err);
    if (!text)
        return;
    must(strlen(text) < ARGUS_STEP_CONF_MAX, "step.conf is bounded");
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        size_t n = strcspn(p, "=\n");

        must(n && p[n] == '=' && strchr(p, '\n'), "step.conf is lines of key=value");
    }
    must(strstr(text, "\nuid=0\n") && !strstr(strstr(text, "\nuid=0\n") + 1, "\nuid="),
         "nobody adds a line");
    {
        struct argus_stepconf conf;

        if (argus_stepconf_parse(text, strlen(text), "step.conf", &conf, &err)) {
            fprintf(stderr, "%s\n", err.text);
            must(0, "the others can read step.conf");
        }
        argus_stepconf_clear(&conf);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct argus_keys keys;
    struct argus_request request = {0};
    char *text = malloc(size + 1), *half;
    struct argus_pattern_facts p;
    argus_error_t err;
    char why[512], out[256];
    char *argv[1];

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    half = strchr(text, '|');
    half = half ? half + 1 : text;
    argus_keys_defaults(&keys);
    argus_keys_option(&keys, &request, text, one_line);
    keys_stay_valid(&keys);
    argv[0] = text;
    argus_keys_plugstack(&keys, 1, argv, one_line);
    keys_stay_valid(&keys);
    argus_keys_allowed(&keys, text, half, text, why, sizeof(why));
    p = (struct argus_pattern_facts){.user = half, .job = half, .workdir = half, .cluster = half};
    if (!argus_pattern_check(text, "ujAawN", true, &err) &&
        !argus_pattern_expand(text, &p, out, sizeof(out), &err))
        must(argus_path_sane(out), "an expanded path is sane");
    argus_facts_node_index(text, half);
    try_step_conf(&keys, text, half);
    free(text);
    return 0;
}

#ifndef ARGUS_LIBFUZZER
static const char *const samples[] = {
    "full,sources=cupti,nccl,window=8,warn=1.15,critical=1.3|n[1-4]",
    "mode=off,links=on,floor_ms=0.25,summary=on,info=1.01|r[01-12,15]-ib,x",
    "dir=%w/argus/%u/%j/%A_%a/%N%%|/home/ann/run",
    "only=partition:gpu,debug|not=user:root",
    "%w/../%u|..",
    "(null)|9999999999999999999",
    "default=on|a[1-1000000],b[000000001-2]",
};

int main(int argc, char **argv)
{
    long seconds = argc > 1 ? atol(argv[1]) : 2;
    uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 10) : 20260101;
    time_t end = time(NULL) + seconds;
    unsigned long runs = 0;
    uint8_t input[2048];

    while (time(NULL) < end) {
        for (int burst = 0; burst < 256; burst++, runs++) {
            const char *s;
            size_t n;

            state = state * 6364136223846793005u + 1442695040888963407u;
            s = samples[(state >> 33) % (sizeof(samples) / sizeof(samples[0]))];
            n = strlen(s);
            memcpy(input, s, n);
            for (int i = (state >> 40) % 8; i >= 0; i--) {
                size_t at;

                state = state * 6364136223846793005u + 1442695040888963407u;
                at = (state >> 33) % n;
                switch ((state >> 24) % 4) {
                case 0:
                    input[at] = (uint8_t)(state >> 50);
                    break;
                case 1:
                    input[at] = (uint8_t) ",=%/.[]-|:0"[(state >> 50) % 11];
                    break;
                case 2:
                    if (n * 2 < sizeof(input)) {
                        memmove(input + n, input + at, n - at);
                        n += n - at;
                    }
                    break;
                default:
                    n = at + 1;
                }
            }
            LLVMFuzzerTestOneInput(input, n);
        }
    }
    printf("1..1\nok 1 - %lu inputs\n", runs);
    return 0;
}
#endif
