/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <cairo-svg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"

#define PNG_SCALE 2 /* pixels a unit: sharp on dense displays and on paper */
#define CELL_MIN 10 /* height of a row that still carries a label */
#define LABEL_WIDTH 150

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
/* fontconfig keeps what it parsed of its configuration until the process ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfontconfig";
}
#endif

static cairo_status_t collect(void *closure, const unsigned char *data, unsigned length)
{
    struct picture *p = closure;

    if (p->length + length > p->room) {
        size_t room = (p->length + length) * 2;
        unsigned char *bigger = realloc(p->data, room);

        if (!bigger) {
            p->failed = 1;
            return CAIRO_STATUS_NO_MEMORY;
        }
        p->data = bigger;
        p->room = room;
    }
    memcpy(p->data + p->length, data, length);
    p->length += length;
    return CAIRO_STATUS_SUCCESS;
}

void picture_begin(struct picture *p, double width, double height, int png)
{
    memset(p, 0, sizeof(*p));
    p->width = width;
    p->height = height;
    p->png = png;
    p->surface = png ? cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width * PNG_SCALE),
                                                  (int)(height * PNG_SCALE))
                     : cairo_svg_surface_create_for_stream(collect, p, width, height);
    p->cr = cairo_create(p->surface);
    if (png) {
        cairo_scale(p->cr, PNG_SCALE, PNG_SCALE);
        cairo_set_antialias(p->cr, CAIRO_ANTIALIAS_GRAY);
    }
    picture_box(p, 0, 0, width, height, 0xffffff);
    cairo_select_font_face(p->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
}

static void put_base64(FILE *out, const unsigned char *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned three = (unsigned)data[i] << 16 | (i + 1 < n ? (unsigned)data[i + 1] << 8 : 0) |
                         (i + 2 < n ? data[i + 2] : 0);

        fputc(digits[three >> 18], out);
        fputc(digits[three >> 12 & 63], out);
        fputc(i + 1 < n ? digits[three >> 6 & 63] : '=', out);
        fputc(i + 2 < n ? digits[three & 63] : '=', out);
    }
}

void picture_end(struct html *h, struct picture *p, const char *alt)
{
    cairo_status_t status = cairo_status(p->cr);

    cairo_destroy(p->cr);
    if (p->png && status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(p->surface, collect, p);
    cairo_surface_finish(p->surface);
    cairo_surface_destroy(p->surface);
    if (status != CAIRO_STATUS_SUCCESS || p->failed) {
        h->failed = 1;
    } else {
        fprintf(h->out, "<img width=\"%.0f\" height=\"%.0f\" alt=\"", p->width, p->height);
        html_text(h, alt);
        fprintf(h->out, "\" src=\"data:image/%s;base64,", p->png ? "png" : "svg+xml");
        put_base64(h->out, p->data, p->length);
        html_put(h, "\">\n");
    }
    free(p->data);
}

void picture_colour(struct picture *p, unsigned rgb)
{
    cairo_set_source_rgb(p->cr, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
                         (rgb & 255) / 255.0);
}

/* Names may hold bytes that cairo refuses as text. */
static void plain_label(const char *in, char *out, size_t size)
{
    size_t n = 0;

    for (; *in && n + 1 < size; in++)
        out[n++] = *in >= 0x20 && *in < 0x7f ? *in : '?';
    out[n] = '\0';
}

void picture_label(struct picture *p, double x, double y, int align, double size, unsigned rgb,
                   const char *label)
{
    cairo_text_extents_t e;
    char text[160];

    plain_label(label, text, sizeof(text));
    cairo_set_font_size(p->cr, size);
    cairo_text_extents(p->cr, text, &e);
    x -= align > 0 ? 0 : align < 0 ? e.x_advance : e.x_advance / 2;
    picture_colour(p, rgb);
    cairo_move_to(p->cr, x, y + size * 0.35);
    cairo_show_text(p->cr, text);
}

void picture_label_up(struct picture *p, double x, double y, double size, unsigned rgb,
                      const char *text)
{
    cairo_save(p->cr);
    cairo_translate(p->cr, x, y);
    cairo_rotate(p->cr, -M_PI / 2);
    picture_label(p, 0, 0, 1, size, rgb, text);
    cairo_restore(p->cr);
}

void picture_line(struct picture *p, double x1, double y1, double x2, double y2, double width,
                  unsigned rgb)
{
    picture_colour(p, rgb);
    cairo_set_line_width(p->cr, width);
    cairo_move_to(p->cr, x1, y1);
    cairo_line_to(p->cr, x2, y2);
    cairo_stroke(p->cr);
}

void picture_box(struct picture *p, double x, double y, double w, double h, unsigned rgb)
{
    picture_colour(p, rgb);
    cairo_rectangle(p->cr, x, y, w, h);
    cairo_fill(p->cr);
}

static unsigned mix(unsigned a, unsigned b, double t)
{
    unsigned rgb = 0;

    for (int shift = 0; shift <= 16; shift += 8) {
        double low = a >> shift & 255, high = b >> shift & 255;

        rgb |= (unsigned)lrint(low + (high - low) * t) << shift;
    }
    return rgb;
}

unsigned picture_heat(double level)
{
    /* Lightness falls evenly from step to step. */
    static const unsigned ramp[] = {0xf4f1ea, 0xf6d9a8, 0xeea35c, 0xcf5b32, 0x8e1f24, 0x3f0a1e};
    enum { STEPS = sizeof(ramp) / sizeof(ramp[0]) - 1 };
    double at;
    int k;

    if (isnan(level))
        return 0xffffff;
    at = (level < 0 ? 0 : level > 1 ? 1 : level) * STEPS;
    k = (int)at < STEPS ? (int)at : STEPS - 1;
    return mix(ramp[k], ramp[k + 1], at - k);
}

static void mark_line(struct picture *p, double x, double top, double height, unsigned rgb)
{
    picture_line(p, x, top, x, top + height, 1.5, rgb);
}

void picture_marks(struct picture *p, const struct argus_verdict *v, double left, double top,
                   double width, double height, int steps)
{
    double onset = left + width * v->onset_step / steps, y = top + height + 27;
    double recovered = left + width * v->recovered_step / steps;
    int began = v->onset_step > 0 && v->onset_step <= steps;
    int ended = v->recovered_step > 0 && v->recovered_step <= steps;
    int side; /* of the line that its word stands on */
    char text[32];

    if (began) {
        /* not into the word of the other one, nor over the edge */
        side = ended ? -1 : onset > left + width - 70 ? -1 : 1;
        if (onset < left + 70)
            side = 1;
        mark_line(p, onset, top, height, ALERT);
        snprintf(text, sizeof(text), "onset %d", v->onset_step);
        picture_label(p, onset + 4 * side, y, side, 10, ALERT, text);
    }
    if (ended) {
        side = recovered > left + width - 90 ? -1 : 1;
        mark_line(p, recovered, top, height, ACCENT);
        snprintf(text, sizeof(text), "recovered %d", v->recovered_step);
        if (!began || recovered - onset > (onset < left + 70 ? 80 : 0) + (side < 0 ? 90 : 0))
            picture_label(p, recovered + 4 * side, y, side, 10, ACCENT, text);
    }
}

double picture_tick(double span, int n)
{
    double raw = span / n, power = pow(10, floor(log10(raw)));

    return power * (raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10);
}

/* A name shortened so that it fits the labels' column. */
static void fit_label(struct picture *p, double size, double room, char *text)
{
    cairo_text_extents_t e;
    size_t n = strlen(text);

    cairo_set_font_size(p->cr, size);
    for (;;) {
        cairo_text_extents(p->cr, text, &e);
        if (e.x_advance <= room || n == 0)
            return;
        do
            text[--n] = '\0';
        while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80);
    }
}

static void row_labels(struct picture *p, const struct argus_view *view, double top, double cell)
{
    /* Rows lower than a letter: every so many gets its label, and every culprit. */
    int every = (int)ceil(CELL_MIN / cell);
    double size = cell > 12 ? 11 : 9;

    for (size_t r = 0; r < view->n_rows; r++) {
        const struct argus_view_row *row = &view->rows[r];
        char name[64], text[96];

        if (!row->culprit && r % (size_t)every)
            continue;
        plain_label(row->label, name, sizeof(name));
        if (row->n_ranks > 1 && view->kind != ARGUS_VIEW_WORK)
            snprintf(text, sizeof(text), "%s (%zu)", name, row->n_ranks);
        else
            snprintf(text, sizeof(text), "%s", name);
        fit_label(p, size, LABEL_WIDTH - 12, text);
        picture_label(p, LABEL_WIDTH - 6, top + cell * ((double)r + 0.5), -1, size,
                      row->culprit ? ALERT : INK, text);
    }
}

static void step_axis(struct picture *p, const struct argus_view *view,
                      const struct argus_verdict *v, double left, double top, double width,
                      double height)
{
    int steps = view->n_columns * view->steps_per_column;
    double tick = fmax(picture_tick(steps, 8), 1), x;
    char text[32];

    for (double k = 0; k <= steps; k += tick) {
        x = left + width * k / steps;
        picture_line(p, x, top + height, x, top + height + 4, 1, FAINT);
        snprintf(text, sizeof(text), "%.0f", k);
        picture_label(p, x, top + height + 12, 0, 10, FAINT, text);
    }
    picture_label(p, left - 10, top + height + 12, -1, 10, FAINT, "step");
    picture_marks(p, v, left, top - 4, width, height + 4, steps);
}

static void scale(struct picture *p, double x, double y, double low, double high)
{
    char text[32];

    for (int i = 0; i < 60; i++)
        picture_box(p, x + 2 * i, y, 2, 8, picture_heat(i / 59.0));
    snprintf(text, sizeof(text), low > 0 ? "%.2fx" : "%.0f", low);
    picture_label(p, x - 4, y + 4, -1, 10, FAINT, text);
    snprintf(text, sizeof(text), low > 0 ? "%.2fx" : "%.0f %%", low > 0 ? high : 100 * high);
    picture_label(p, x + 124, y + 4, 1, 10, FAINT, text);
}

void html_heat(struct html *h, const struct argus_view *view, double low, double high,
               const char *alt)
{
    double cell = view->n_rows <= 16 ? 18 : view->n_rows <= 32 ? 13 : 9, width = 780, top = 8;
    double height = cell * (double)view->n_rows;
    struct picture p;

    picture_begin(&p, LABEL_WIDTH + width + 20, top + height + 56, 1);
    cairo_set_antialias(p.cr, CAIRO_ANTIALIAS_NONE);
    for (size_t r = 0; r < view->n_rows; r++) {
        for (int c = 0; c < view->n_columns; c++) {
            double x = floor(width * c / view->n_columns),
                   next = floor(width * (c + 1) / view->n_columns);
            double level = (view->rows[r].value[c] - low) / (high - low);

            picture_box(&p, LABEL_WIDTH + x, top + cell * (double)r, next - x,
                        cell - (cell > 10 ? 1 : 0), picture_heat(level));
        }
    }
    cairo_set_antialias(p.cr, CAIRO_ANTIALIAS_GRAY);
    row_labels(&p, view, top, cell);
    step_axis(&p, view, h->v, LABEL_WIDTH, top, width, height);
    scale(&p, LABEL_WIDTH + 40, top + height + 40, low, high);
    picture_end(h, &p, alt);
}
