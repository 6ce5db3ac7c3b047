/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the writer and the parser of the comment. */
#ifndef ARGUS_VERDICT_COMMENT_TOKEN_H
#define ARGUS_VERDICT_COMMENT_TOKEN_H

#define ARGUS_COMMENT_TOKENS 32 /* more than a line can have */

/* Bytes that stand for themselves in a value. */
static inline int argus_comment_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '_' ||
           c == '+' || c == '@' || c == ':' || c == ',' || c == '~' || c == '-';
}

#endif /* ARGUS_VERDICT_COMMENT_TOKEN_H */
