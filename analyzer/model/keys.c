/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that decide what counts as a fault: step.json, else job.json, else the defaults. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/digest.h"

#define FILE_MAX (16 << 20)

/* Keys are numbers or their text, at the top or below "keys". */
static int number(const json_t *root, const char *key, double *value)
{
    const json_t *v = json_object_get(json_object_get(root, "keys"), key);
    char *end;
    double x;

    if (!v)
        v = json_object_get(root, key);
    if (json_is_number(v)) {
        *value = json_number_value(v);
        return 1;
    }
    if (!json_is_string(v))
        return 0;
    x = strtod(json_string_value(v), &end);
    if (end == json_string_value(v) || *end || !isfinite(x))
        return 0;
    *value = x;
    return 1;
}

/* A file that is not there is no error: no text.  A FIFO must not make us wait. */
json_t *argus_model_load_json(const char *path, json_error_t *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    json_t *root = NULL;
    struct stat st;

    *err = (json_error_t){.line = -1};
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            snprintf(err->text, sizeof(err->text), "%s", strerror(errno));
        return NULL;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        snprintf(err->text, sizeof(err->text), "not a file, or too large");
    else
        root = json_loadfd(fd, JSON_REJECT_DUPLICATES, err);
    close(fd);
    return root;
}

void argus_model_read_keys(struct argus_model *m)
{
    static const char *const files[] = {"job.json", "../job.json", "step.json"};
    struct argus_model_keys k = {1.03, 1.10, 1.20, 1.0, 20};
    double steps = k.min_steps;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[4096];
        json_t *root;
        json_error_t jerr;

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", m->dir, files[i]) >= sizeof(path))
            continue;
        if (!(root = argus_model_load_json(path, &jerr))) {
            if (jerr.line > 0)
                argus_model_note(m, "%s: line %d: %s", path, jerr.line, jerr.text);
            else if (jerr.text[0])
                argus_model_note(m, "%s: %s", path, jerr.text);
            continue;
        }
        number(root, "info", &k.info);
        number(root, "warn", &k.warn);
        number(root, "critical", &k.critical);
        number(root, "floor_ms", &k.floor_ms);
        number(root, "min_steps", &steps);
        json_decref(root);
    }
    if (k.info > 1 && k.warn >= k.info && k.critical >= k.warn && k.floor_ms >= 0 && steps >= 1 &&
        steps < 1e9) {
        k.min_steps = (int)steps;
    } else {
        argus_model_note(m,
                         "%s: info, warn, critical, floor_ms or min_steps make no sense; "
                         "defaults used",
                         m->dir);
        k = (struct argus_model_keys){1.03, 1.10, 1.20, 1.0, 20};
    }
    m->keys = k;
}
