/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others in JSON. */
#ifndef ARGUS_UTIL_JSONTEXT_H
#define ARGUS_UTIL_JSONTEXT_H

#include <jansson.h>

/* A new string, owned by the caller.  JSON is UTF-8, names from drivers and file systems need not be: in one that is
 * not each byte beyond ASCII becomes '?'.  NULL gives null; NULL comes back when there is no memory. */
json_t *argus_json_text(const char *text);

#endif /* ARGUS_UTIL_JSONTEXT_H */
