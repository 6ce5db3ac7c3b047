/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/util/error.h"

#include <stdio.h>
#include <string.h>

int argus_error(argus_error_t *err, const char *format, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, format);
    vsnprintf(err->text, sizeof(err->text), format, ap);
    va_end(ap);
    return -1;
}

int argus_error_prefix(argus_error_t *err, const char *format, ...)
{
    char old[sizeof(err->text)];
    va_list ap;
    int n;

    if (!err)
        return -1;
    memcpy(old, err->text, sizeof(old));
    va_start(ap, format);
    n = vsnprintf(err->text, sizeof(err->text), format, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", old);
    return -1;
}
