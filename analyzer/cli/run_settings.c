/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of `argus run`: lines of step.conf that -m and -o give. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/cli/cli.h"
#include "analyzer/cli/run.h"

int argus_run_add_setting(struct launch *l, const char *key_value)
{
    static const char *const keys[] = {
        "sources=", "links=",    "window=",   "keep_mb=",   "ring_mb=", "info=",
        "warn=",    "critical=", "floor_ms=", "min_steps=", "mode="};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!strncmp(key_value, keys[i], strlen(keys[i])) && l->n_settings < ARGUS_RUN_SETTINGS &&
            !strchr(key_value, '\n')) {
            l->settings[l->n_settings++] = key_value;
            return 0;
        }
    }
    argus_cli_error("run", "\"%s\" is no option; `argus run --help` lists them", key_value);
    return -1;
}

static int one_of(const char *text, size_t n, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        if (strlen(words[i]) == n && !strncmp(text, words[i], n))
            return 1;
    }
    return 0;
}

/* Words that step.conf takes from the plugin, which has checked them. */
static int check_words(const struct argus_stepconf *conf)
{
    static const char *const modes[] = {"summary", "full", "off"},
                             *const switches[] = {"on", "off"},
                             *const sources[] = {"cupti", "nccl", "nvtx", "stacks"};
    const char *p = conf->sources;

    if (!one_of(conf->mode, strlen(conf->mode), modes, 3)) {
        argus_cli_error("run", "mode=%s: summary, full or off expected", conf->mode);
        return -1;
    }
    if (!one_of(conf->links, strlen(conf->links), switches, 2)) {
        argus_cli_error("run", "links=%s: on or off expected", conf->links);
        return -1;
    }
    for (;;) {
        size_t n = strcspn(p, ",");

        if (!one_of(p, n, sources, 4)) {
            argus_cli_error("run", "sources=%s: of cupti, nccl, nvtx and stacks", conf->sources);
            return -1;
        }
        if (!p[n])
            return 0;
        p += n + 1;
    }
}

/* What -m and -o say, before anything is made. */
int argus_run_check_settings(struct launch *l)
{
    char *text = NULL;
    struct argus_stepconf conf;
    argus_error_t err = {""};
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f) {
        argus_cli_error("run", "no memory");
        return -1;
    }
    for (int i = 0; i < l->n_settings; i++)
        fprintf(f, "%s\n", l->settings[i]);
    fclose(f);
    rc = text ? argus_stepconf_parse(text, size, "option", &conf, &err) : -1;
    if (rc < 0) {
        argus_cli_error("run", "%s", text ? err.text : "no memory");
    } else {
        rc = check_words(&conf);
        l->off = !strcmp(conf.mode, "off");
        argus_stepconf_clear(&conf);
    }
    free(text);
    return rc;
}
