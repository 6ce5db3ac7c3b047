/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as text.  Whoever first knows the error words it, naming the file
 * and the object; callers put what they were doing in front and pass it on.
 * Functions return 0, or -1 with the text filled in.
 */
#ifndef ARGUS_UTIL_ERROR_H
#define ARGUS_UTIL_ERROR_H

#include <stdarg.h>

typedef struct {
    char text[512];
} argus_error_t;

/* Both return -1, so that `return argus_error(err, "...")` reads well.  `err`
 * may be NULL. */
int argus_error(argus_error_t *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Put "format: " in front of the text already there. */
int argus_error_prefix(argus_error_t *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* ARGUS_UTIL_ERROR_H */
