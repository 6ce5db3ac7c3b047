/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/util/jsontext.h"

json_t *argus_json_text(const char *text)
{
    json_t *s;
    char *plain;

    if (!text)
        return json_null();
    s = json_string(text);
    if (s || !(plain = strdup(text)))
        return s;
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    s = json_string(plain);
    free(plain);
    return s;
}
