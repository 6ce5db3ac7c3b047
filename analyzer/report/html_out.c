/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"

void html_put(struct html *h, const char *markup)
{
    fputs(markup, h->out);
}

/* Bytes of a valid UTF-8 character that HTML allows; 0: none. */
static size_t character(const unsigned char *s)
{
    unsigned code;
    size_t n;

    if (s[0] < 0x80)
        return (s[0] >= 0x20 && s[0] != 0x7f) || s[0] == '\n' || s[0] == '\t';
    n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
        : (s[0] & 0xf0) == 0xe0       ? 3
        : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                      : 0;
    if (n == 0)
        return 0;
    code = s[0] & (0xff >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    /* Not overlong, no surrogate, no C1 control, no character that turns the direction of text. */
    if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
        (code >= 0xd800 && code < 0xe000) || code < 0xa0 || (code >= 0x202a && code <= 0x202e) ||
        (code >= 0x2066 && code <= 0x2069))
        return 0;
    return n;
}

void html_text(struct html *h, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s;) {
        size_t n = character(s);

        if (n == 0)
            fputc('?', h->out);
        else if (*s == '<')
            fputs("&lt;", h->out);
        else if (*s == '>')
            fputs("&gt;", h->out);
        else if (*s == '&')
            fputs("&amp;", h->out);
        else if (*s == '"')
            fputs("&quot;", h->out);
        else if (*s == '\'')
            fputs("&#39;", h->out);
        else
            fwrite(s, 1, n, h->out);
        s += n ? n : 1;
    }
}

void html_textf(struct html *h, const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    h->failed |= !text;
    html_text(h, text);
    free(text);
}

void html_section(struct html *h, const char *id, const char *heading, const char *how)
{
    fprintf(h->out, "<section id=\"%s\"><h2>", id);
    html_text(h, heading);
    html_put(h, "</h2>\n");
    if (how) {
        html_put(h, "<p class=\"how\">");
        html_text(h, how);
        html_put(h, "</p>\n");
    }
}

void html_section_end(struct html *h)
{
    html_put(h, "</section>\n");
}

void html_table(struct html *h, const char *summary, const char *const *head, size_t n)
{
    if (summary) {
        html_put(h, "<details><summary>");
        html_text(h, summary);
        html_put(h, "</summary>");
    }
    html_put(h, "<div class=\"scroll\"><table><thead><tr>");
    for (size_t i = 0; i < n; i++) {
        html_put(h, "<th scope=\"col\">");
        html_text(h, head[i]);
        html_put(h, "</th>");
    }
    html_put(h, "</tr></thead><tbody>\n");
}

void html_table_end(struct html *h, int in_details)
{
    html_put(h, "</tbody></table></div>");
    html_put(h, in_details ? "</details>\n" : "\n");
}

void html_row(struct html *h)
{
    html_put(h, "<tr>");
}

void html_row_end(struct html *h)
{
    html_put(h, "</tr>\n");
}

void html_cell(struct html *h, const char *text)
{
    html_put(h, "<td>");
    html_text(h, text);
    html_put(h, "</td>");
}

void html_cell_number(struct html *h, double x)
{
    char text[32];

    argus_words_number(x, text, sizeof(text));
    html_put(h, "<td class=\"n\">");
    html_text(h, text);
    html_put(h, "</td>");
}

void html_cell_duration(struct html *h, double ns)
{
    char text[32];

    argus_words_duration(ns, text, sizeof(text));
    html_put(h, "<td class=\"n\">");
    html_text(h, text);
    html_put(h, "</td>");
}
