/* SPDX-License-Identifier: Apache-2.0 */
/* Root attributes of a timeline, by table. */
#include <config.h>
#include <string.h>

#include "analyzer/timeline/layout.h"

/* Type and shape of a member as an attribute; the caller closes both. */
static int shape(const struct tl_member *m, hid_t *type, hid_t *space)
{
    hsize_t n = m->count;

    if (m->type == TL_STR) {
        *type = H5Tcopy(H5T_C_S1);
        if (*type >= 0) {
            H5Tset_size(*type, m->count);
            H5Tset_strpad(*type, H5T_STR_NULLPAD);
            H5Tset_cset(*type, H5T_CSET_UTF8);
        }
        *space = H5Screate(H5S_SCALAR);
    } else {
        *type = H5Tcopy(tl_native(m->type));
        *space = m->count > 1 ? H5Screate_simple(1, &n, NULL) : H5Screate(H5S_SCALAR);
    }
    return *type < 0 || *space < 0 ? -1 : 0;
}

int tl_attributes_create(hid_t file, const struct tl_member *m, size_t n, const void *base)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        hid_t type = -1, space = -1, attr = -1;

        rc = shape(&m[i], &type, &space);
        if (rc == 0) {
            attr = H5Acreate2(file, m[i].name, type, space, H5P_DEFAULT, H5P_DEFAULT);
            if (attr < 0 || H5Awrite(attr, type, (const char *)base + m[i].offset) < 0)
                rc = -1;
        }
        if (attr >= 0)
            H5Aclose(attr);
        if (space >= 0)
            H5Sclose(space);
        if (type >= 0)
            H5Tclose(type);
    }
    return rc;
}

int tl_attributes_write(hid_t file, const struct tl_member *m, size_t n, const void *base)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        hid_t type = -1;
        hid_t attr = H5Aopen(file, m[i].name, H5P_DEFAULT);

        if (attr >= 0)
            type = H5Aget_type(attr);
        if (type < 0 || H5Awrite(attr, type, (const char *)base + m[i].offset) < 0)
            rc = -1;
        if (type >= 0)
            H5Tclose(type);
        if (attr >= 0)
            H5Aclose(attr);
    }
    return rc;
}

static int same_class(hid_t type, const struct tl_member *m)
{
    H5T_class_t want = m->type == TL_STR ? H5T_STRING : m->type == TL_F64 ? H5T_FLOAT : H5T_INTEGER;

    return H5Tget_class(type) == want && !(want == H5T_STRING && H5Tis_variable_str(type) != 0);
}

static int read_one(hid_t attr, const struct tl_member *m, void *to)
{
    hid_t type = H5Aget_type(attr), space = H5Aget_space(attr), mem_type = -1, mem_space = -1;
    int rc = -1;

    if (type < 0 || space < 0 || shape(m, &mem_type, &mem_space) != 0)
        goto out;
    if (!same_class(type, m) ||
        H5Sget_simple_extent_npoints(space) != H5Sget_simple_extent_npoints(mem_space))
        goto out;
    /* A string of any length is cut or padded to ours; 64 KiB bounds what the conversion needs. */
    if (m->type == TL_STR && H5Tget_size(type) > 65536)
        goto out;
    if (H5Aread(attr, mem_type, to) < 0)
        goto out;
    if (m->type == TL_STR)
        ((char *)to)[m->count - 1] = '\0';
    rc = 0;
out:
    if (mem_space >= 0)
        H5Sclose(mem_space);
    if (mem_type >= 0)
        H5Tclose(mem_type);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return rc;
}

int tl_attributes_read(hid_t file, const char *path, const struct tl_member *m, size_t n,
                       int optional, void *base, argus_error_t *err)
{
    for (size_t i = 0; i < n; i++) {
        hid_t attr = H5Aopen(file, m[i].name, H5P_DEFAULT);
        int rc;

        if (attr < 0) {
            if (optional)
                continue;
            return argus_error(err, "%s: attribute \"%s\" is missing or damaged", path, m[i].name);
        }
        rc = read_one(attr, &m[i], (char *)base + m[i].offset);
        H5Aclose(attr);
        if (rc != 0)
            return argus_error(err, "%s: attribute \"%s\" has an unexpected type or size", path,
                               m[i].name);
    }
    return 0;
}
