/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/report/page.h"

#define LEVELS 5

void argus_report_options_for(struct argus_report_options *options, FILE *out)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

    setlocale(LC_CTYPE, "");
    options->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
    options->colour =
        isatty(fileno(out)) && !(no_colour && *no_colour) && term && *term && strcmp(term, "dumb");
    options->columns = 80;
}

void argus_page_begin(struct argus_page *p, FILE *out, const struct argus_report_options *options)
{
    memset(p, 0, sizeof(*p));
    p->out = out;
    if (options)
        p->options = *options;
    if (p->options.columns < 40)
        p->options.columns = 80;
}

void argus_page_ink(struct argus_page *p, enum argus_ink ink)
{
    static const char *const codes[] = {
        [ARGUS_INK_PLAIN] = "0", [ARGUS_INK_BOLD] = "1",  [ARGUS_INK_DIM] = "2",
        [ARGUS_INK_GOOD] = "32", [ARGUS_INK_INFO] = "36", [ARGUS_INK_WARN] = "1;33",
        [ARGUS_INK_BAD] = "1;31"};

    if (p->options.colour)
        fprintf(p->out, "\033[%sm", codes[ink]);
}

/* Bytes of the UTF-8 character at s, 0: not one that may be printed. */
static size_t character(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;

    if (n == 1)
        return s[0] >= 0x20 && s[0] != 0x7f;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* C1 controls steer terminals like ESC does. */
    if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        return 0;
    return n;
}

void argus_page_put(struct argus_page *p, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = character(s);

        if (*s == '\n') {
            fputc('\n', p->out);
            p->at = 0;
            s++;
        } else if (n == 0 || (n > 1 && !p->options.utf8)) {
            fputc('?', p->out);
            p->at++;
            s += n ? n : 1;
        } else {
            fwrite(s, 1, n, p->out);
            p->at++;
            s += n;
        }
    }
}

void argus_page_printf(struct argus_page *p, const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        text = NULL;
    va_end(ap);
    if (text)
        argus_page_put(p, text);
    free(text);
}

void argus_page_tab(struct argus_page *p, int column)
{
    do {
        fputc(' ', p->out);
        p->at++;
    } while (p->at < column);
}

static int width_of(const char *s, size_t n)
{
    int width = 0;

    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)s[i] & 0xc0) != 0x80;
    return width;
}

/* Pieces of text parted by blanks; with `quoted`, blanks inside quotes part nothing. */
static size_t piece_length(const char *s, int quoted)
{
    size_t n = 0;
    char quote = 0;

    for (; s[n] && (quote || s[n] != ' '); n++) {
        if (!quoted)
            continue;
        if (quote ? s[n] == quote : s[n] == '"' || s[n] == '\'')
            quote = quote ? 0 : s[n];
    }
    return n;
}

static void put_piece(struct argus_page *p, const char *s, size_t n)
{
    char *copy = strndup(s, n);

    /* A line feed inside would leave the column. */
    for (char *c = copy; c && *c; c++)
        *c = *c == '\n' || *c == '\r' || *c == '\t' ? ' ' : *c;
    if (copy)
        argus_page_put(p, copy);
    free(copy);
}

static void wrap(struct argus_page *p, int indent, const char *text, int command)
{
    int room = p->options.columns - (command ? 2 : 0), first = 1;

    while (*text) {
        size_t n;

        text += strspn(text, " ");
        n = piece_length(text, command);
        if (n == 0)
            break;
        if (!first && p->at + 1 + width_of(text, n) > room) {
            argus_page_put(p, command ? " \\\n" : "\n");
            if (indent)
                argus_page_tab(p, indent);
            first = 1;
        }
        if (!first)
            argus_page_put(p, " ");
        put_piece(p, text, n);
        text += n;
        first = 0;
    }
    argus_page_put(p, "\n");
}

void argus_page_wrap(struct argus_page *p, int indent, const char *text)
{
    wrap(p, indent, text, 0);
}

void argus_page_command(struct argus_page *p, int indent, const char *text)
{
    wrap(p, indent, text, 1);
}

void argus_page_heading(struct argus_page *p, const char *text)
{
    argus_page_put(p, "\n");
    argus_page_ink(p, ARGUS_INK_BOLD);
    argus_page_put(p, text);
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_put(p, "\n");
}

void argus_page_rule(struct argus_page *p)
{
    argus_page_ink(p, ARGUS_INK_DIM);
    for (int i = 0; i < p->options.columns; i++)
        argus_page_put(p, p->options.utf8 ? "\xe2\x94\x80" : "-");
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_put(p, "\n");
}

static int step_of(double level, int levels)
{
    int k = (int)(level * levels);

    return k < 0 ? 0 : k >= levels ? levels - 1 : k;
}

void argus_page_shade(struct argus_page *p, double level)
{
    /* light to full block */
    static const char *const shades[LEVELS] = {"\xc2\xb7", "\xe2\x96\x91", "\xe2\x96\x92",
                                               "\xe2\x96\x93", "\xe2\x96\x88"};
    static const char *const plain[LEVELS] = {".", "-", "+", "#", "@"};
    int k;

    if (isnan(level)) {
        argus_page_put(p, " ");
        return;
    }
    k = step_of(level, LEVELS);
    if (k >= 3)
        argus_page_ink(p, k == 4 ? ARGUS_INK_BAD : ARGUS_INK_WARN);
    argus_page_put(p, p->options.utf8 ? shades[k] : plain[k]);
    if (k >= 3)
        argus_page_ink(p, ARGUS_INK_PLAIN);
}

void argus_page_bar(struct argus_page *p, double level)
{
    /* one to eight eighths */
    static const char *const bars[8] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                        "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                        "\xe2\x96\x87", "\xe2\x96\x88"};
    char digit[2] = "0";

    if (isnan(level)) {
        argus_page_put(p, " ");
    } else if (p->options.utf8) {
        argus_page_put(p, bars[step_of(level, 8)]);
    } else {
        digit[0] = (char)('0' + step_of(level, 10));
        argus_page_put(p, digit);
    }
}
