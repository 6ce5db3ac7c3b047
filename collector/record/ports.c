/* SPDX-License-Identifier: Apache-2.0 */
/* Network ports as sysfs shows them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/record/health_sources.h"

#define PATH_BYTES 1024
#define PORTS_MAX 64 /* of a kind; a node with more shows its first */

static int read_value(const char *dir, const char *name, double *value)
{
    char path[PATH_BYTES], text[128];
    ssize_t n;
    char *end;
    int fd;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    *value = strtod(text, &end); /* "400 Gb/sec (4X NDR)", "4: ACTIVE" */
    return end == text ? -1 : 0;
}

static void counters(const char *dir, const char *const *names, size_t n, const char *device,
                     argus_sample_f f, void *arg)
{
    char metric[64];
    double v;

    for (size_t i = 0; i < n; i++) {
        const char *base = strrchr(names[i], '/');

        if (read_value(dir, names[i], &v) < 0)
            continue;
        snprintf(metric, sizeof(metric), "nic_%s", base ? base + 1 : names[i]);
        f(arg, device, metric, v);
    }
}

#define COUNTERS(dir, names, device, f, arg)                                                       \
    counters(dir, names, sizeof(names) / sizeof(names[0]), device, f, arg)

static const char *const port_counters[] = {
    "counters/port_rcv_errors",
    "counters/symbol_error",
    "counters/link_downed",
    "counters/link_error_recovery",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_xmit_discards",
    "counters/port_xmit_wait",
    "counters/port_xmit_data",
    "counters/port_rcv_data",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/np_cnp_sent",
    "hw_counters/rp_cnp_handled",
    "hw_counters/roce_slow_restart",
    "hw_counters/rx_icrc_encapsulated",
};

static const char *const interface_counters[] = {
    "statistics/rx_errors",  "statistics/tx_errors",     "statistics/rx_dropped",
    "statistics/tx_dropped", "statistics/rx_crc_errors", "statistics/rx_bytes",
    "statistics/tx_bytes",   "carrier_changes",
};

static void infiniband_port(const char *dir, const char *device, argus_sample_f f, void *arg)
{
    double v;

    if (read_value(dir, "rate", &v) == 0)
        f(arg, device, "nic_rate_gbps", v);
    if (read_value(dir, "state", &v) == 0)
        f(arg, device, "nic_port_active", v == 4);
    COUNTERS(dir, port_counters, device, f, arg);
}

static void infiniband(const char *root, argus_sample_f f, void *arg)
{
    char dir[PATH_BYTES], port_dir[PATH_BYTES], device[64];
    struct dirent *e, *p;
    int n = 0;
    DIR *d, *ports;

    snprintf(dir, sizeof(dir), "%s/class/infiniband", root);
    d = opendir(dir);
    while (d && (e = readdir(d)) && n < PORTS_MAX) {
        if (e->d_name[0] == '.' ||
            (size_t)snprintf(dir, sizeof(dir), "%s/class/infiniband/%s/ports", root, e->d_name) >=
                sizeof(dir))
            continue;
        ports = opendir(dir);
        while (ports && (p = readdir(ports)) && n < PORTS_MAX) {
            if (p->d_name[0] == '.' || (size_t)snprintf(port_dir, sizeof(port_dir), "%s/%s", dir,
                                                        p->d_name) >= sizeof(port_dir))
                continue;
            snprintf(device, sizeof(device), "%.40s:%.8s", e->d_name, p->d_name);
            infiniband_port(port_dir, device, f, arg);
            n++;
        }
        if (ports)
            closedir(ports);
    }
    if (d)
        closedir(d);
}

/* Interfaces with hardware behind them. */
static void ethernet(const char *root, argus_sample_f f, void *arg)
{
    char dir[PATH_BYTES], hardware[PATH_BYTES + 16];
    struct dirent *e;
    int n = 0;
    double v;
    DIR *d;

    snprintf(dir, sizeof(dir), "%s/class/net", root);
    d = opendir(dir);
    while (d && (e = readdir(d)) && n < PORTS_MAX) {
        if (e->d_name[0] == '.' ||
            (size_t)snprintf(dir, sizeof(dir), "%s/class/net/%s", root, e->d_name) >= sizeof(dir))
            continue;
        snprintf(hardware, sizeof(hardware), "%s/device", dir);
        if (access(hardware, F_OK) < 0)
            continue;
        if (read_value(dir, "speed", &v) == 0 && v > 0)
            f(arg, e->d_name, "nic_rate_gbps", v / 1000);
        if (read_value(dir, "carrier", &v) == 0)
            f(arg, e->d_name, "nic_port_active", v);
        COUNTERS(dir, interface_counters, e->d_name, f, arg);
        n++;
    }
    if (d)
        closedir(d);
}

void argus_ports_sample(const char *root, argus_sample_f f, void *arg)
{
    infiniband(root, f, arg);
    ethernet(root, f, arg);
}
