/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, options, decisions and the environment of a task. */
#include <config.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "spank/test/host.h"

static char env[65536];

static int setup(void **unused)
{
    (void)unused;
    host_setup();
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    host_teardown();
    return 0;
}

static void assert_value(const char *name, const char *expected)
{
    const char *value = host_value(env, name);

    assert_non_null(value);
    assert_string_equal(value, expected);
}

static void assert_untraced(void)
{
    assert_null(host_value(env, "ARGUS_SPOOL"));
    assert_null(host_value(env, "CUDA_INJECTION64_PATH"));
    assert_null(host_value(env, "NCCL_PROFILER_PLUGIN"));
    assert_null(host_value(env, "NVTX_INJECTION64_PATH"));
}

static void assert_nothing_made(void)
{
    assert_false(host_exists("%s", host.spool));
}

static void traced_step_gets_its_environment(void **unused)
{
    char path[256];

    (void)unused;
    host_start("full");
    host_task(1, env, sizeof(env));
    snprintf(path, sizeof(path), "%s/77.0", host.spool);
    assert_value("ARGUS_SPOOL", path);
    snprintf(path, sizeof(path), "%s/%s/77", host.root, getuid() ? "" : "nobody");
    if (!getuid())
        assert_value("ARGUS_DIR", path);
    assert_value("ARGUS_JOB", "77");
    assert_value("ARGUS_STEP", "0");
    assert_value("ARGUS_RANK", "1");
    assert_value("ARGUS_LOCAL_RANK", "1");
    assert_value("ARGUS_WORLD", "2");
    assert_value("ARGUS_NODE", "n7");
    assert_value("ARGUS_SOURCES", "cupti,nccl,nvtx,stacks");
    snprintf(path, sizeof(path), "%s/collector.so", host.root);
    assert_value("CUDA_INJECTION64_PATH", path);
    assert_value("NCCL_PROFILER_PLUGIN", path);
    assert_value("NVTX_INJECTION64_PATH", path);
    assert_true(host_exists("%s/jobs/77/0", host.spool));
    assert_int_equal(host.options, 1);
    host_stop();
    /* The spool is gone, the marker is the epilog's. */
    assert_false(host_exists("%s/77.0", host.spool));
    assert_true(host_exists("%s/jobs/77/0", host.spool));
    assert_string_equal(host.said, "");
}

static void marker_says_what_the_step_is(void **unused)
{
    char path[256], text[65536];
    struct stat st;
    FILE *f;
    size_t n;

    (void)unused;
    host.array_id = 70;
    host.array_task = 3;
    host_setenv("SLURM_RESTART_COUNT", "2");
    host_start("window=16,sources=cupti,nccl,warn=1.15");
    snprintf(path, sizeof(path), "%s/jobs/77/0", host.spool);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_uid, geteuid());
    f = fopen(path, "r");
    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    memcpy(env, text, n + 1);
    assert_value("version", "1");
    assert_value("job", "77");
    assert_value("array_job", "70");
    assert_value("array_task", "3");
    assert_value("restart", "2");
    assert_value("node", "n7");
    assert_value("nodes", "n[6-7]");
    assert_value("step_nodes", "n7");
    assert_value("ntasks", "2");
    assert_value("cluster", "tst");
    assert_value("window", "16");
    assert_value("sources", "cupti,nccl");
    assert_value("warn", "1.15");
    assert_value("lazy", "off");
    assert_non_null(strstr(host_value(env, "dir"), "/77-r2"));
    host_stop();
}

static void off_unless_asked_for(void **unused)
{
    (void)unused;
    host_setenv("CUDA_VISIBLE_DEVICES", "0");
    host_load();
    host_init();
    host_post_opt();
    host_user_init();
    host_task(0, env, sizeof(env));
    assert_untraced();
    host_stop();
    assert_nothing_made();
    assert_string_equal(host.said, "");
}

static void default_on_wants_gpus(void **unused)
{
    (void)unused;
    host_arg("default=on");
    /* The job's own GPUs are not the step's. */
    host_setenv("SLURM_JOB_GPUS", "0,1");
    host_load();
    host_init();
    host_post_opt();
    host_user_init();
    host_task(0, env, sizeof(env));
    assert_untraced();
    host_stop();
    assert_nothing_made();

    host_setenv("SLURM_STEP_GPUS", "0");
    host_load();
    host_init();
    host_post_opt();
    host_user_init();
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_RANK", "0");
    host_stop();
    assert_string_equal(host.said, "");
    assert_string_equal(host.log, "");
}

static void off_beats_default_on(void **unused)
{
    (void)unused;
    host_arg("default=on");
    host_setenv("SLURM_STEP_GPUS", "0");
    host_start("off");
    host_task(0, env, sizeof(env));
    assert_untraced();
    host_stop();
    assert_nothing_made();
}

static void site_mode_off_beats_everything(void **unused)
{
    (void)unused;
    host_arg("mode=off");
    host_start("full");
    host_task(0, env, sizeof(env));
    assert_untraced();
    host_stop();
    assert_nothing_made();
    assert_string_equal(host.said, "argus: n7: plugstack.conf has mode=off; not traced\n");
}

static void rules_of_the_site(void **unused)
{
    (void)unused;
    host_arg("only=partition:gpu,debug");
    host_arg("not=account:guests");
    host_start(NULL);
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_JOB", "77");
    host_stop();
    host_setenv("SLURM_JOB_ACCOUNT", "guests");
    host_start(NULL);
    host_task(0, env, sizeof(env));
    assert_untraced();
    host_stop();
    assert_string_equal(host.said,
                        "argus: n7: plugstack.conf has not=account:guests; not traced\n");
}

static void plain_option_in_all_its_forms(void **unused)
{
    static const char *const forms[] = {NULL, "", "(null)", "on"};

    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        host_start(forms[i]);
        host_task(0, env, sizeof(env));
        assert_value("ARGUS_JOB", "77");
        host_stop();
    }
    assert_string_equal(host.said, "");
}

static void last_option_wins_whole(void **unused)
{
    (void)unused;
    host_load();
    host_init();
    host_option("off");
    host_option("sources=nccl");
    host_option("full");
    host_option("full");
    host_post_opt();
    host_user_init();
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_SOURCES", "cupti,nccl,nvtx,stacks");
    host_stop();
}

static void extern_step_is_left_alone(void **unused)
{
    (void)unused;
    host.step = 0xfffffffc;
    host_setenv("CUDA_INJECTION64_PATH", "/x/libargus-collector.so");
    host_start("on");
    host_task(0, env, sizeof(env));
    assert_null(host_value(env, "ARGUS_SPOOL"));
    assert_value("CUDA_INJECTION64_PATH", "/x/libargus-collector.so");
    host_stop();
    assert_nothing_made();
}

static void batch_step_is_lazy(void **unused)
{
    char path[256];
    FILE *f;

    (void)unused;
    host.step = 0xfffffffb;
    host.nnodes = host.ntasks = 0;
    host.local_tasks = 1;
    host_start("(null)");
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_STEP", "batch");
    snprintf(path, sizeof(path), "%s/77.batch/step.conf", host.spool);
    f = fopen(path, "r");
    assert_non_null(f);
    env[fread(env, 1, sizeof(env) - 1, f)] = '\0';
    fclose(f);
    assert_value("lazy", "on");
    assert_value("ntasks", "1");
    assert_value("nnodes", "1");
    assert_value("step_nodes", "n7");
    assert_value("nodes", "n[6-7]");
    host_stop();
}

static void read_file(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void read_file(const char *format, ...)
{
    char path[512];
    va_list ap;
    FILE *f;

    va_start(ap, format);
    vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    f = fopen(path, "r");
    assert_non_null(f);
    env[fread(env, 1, sizeof(env) - 1, f)] = '\0';
    fclose(f);
}

/* Only the script's own environment tells that the job was requeued. */
static void batch_step_of_a_restarted_job(void **unused)
{
    char dir[512];

    (void)unused;
    host.step = 0xfffffffb;
    host.local_tasks = 1;
    host_start("on");
    read_file("%s/77.batch/step.conf", host.spool);
    snprintf(dir, sizeof(dir), "%s-r3", host_value(env, "dir"));
    host_setenv("SLURM_RESTART_COUNT", "3");
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_DIR", dir);
    read_file("%s/77.batch/step.conf", host.spool);
    assert_value("dir", dir);
    assert_value("restart", "3");
    assert_value("live", "off");
    host_stop();
    read_file("%s/jobs/77/batch", host.spool);
    assert_value("dir", dir);
    assert_value("restart", "3");
    assert_value("version", "1");
    assert_value("live", "off");
    assert_false(host_exists("%s/77.batch", host.spool));
}

static void step_inside_a_traced_script(void **unused)
{
    char path[256];

    (void)unused;
    /* What the batch step left; the collector may be another release's. */
    host_setenv("ARGUS_SPOOL", "/run/argus/77.batch");
    host_setenv("ARGUS_STEP", "batch");
    host_setenv("CUDA_INJECTION64_PATH", "/old/lib/argus/libargus-collector.so");
    host_start(NULL);
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_STEP", "0");
    snprintf(path, sizeof(path), "%s/collector.so", host.root);
    assert_value("CUDA_INJECTION64_PATH", path);
    host_stop();
    host_start("off");
    host_task(0, env, sizeof(env));
    assert_untraced();
    assert_null(host_value(env, "ARGUS_STEP"));
    host_stop();
}

static void users_variables_are_kept(void **unused)
{
    char path[256], text[256];
    FILE *f;

    (void)unused;
    host_setenv("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so");
    host_setenv("NVTX_INJECTION64_PATH", "");
    host_setenv("ARGUS_SPOOL", "/home/somebody");
    host.lines = 2;
    host_start("on");
    host_task(1, env, sizeof(env));
    assert_value("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so");
    assert_value("NVTX_INJECTION64_PATH", "");
    snprintf(path, sizeof(path), "%s/77.0", host.spool);
    assert_value("ARGUS_SPOOL", path);
    snprintf(path, sizeof(path), "%s/77.0/standdown", host.spool);
    f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, "rank=1 source=cupti reason=user-set\n"
                              "rank=1 source=nvtx reason=user-set\n");
    host_stop();
}

static void standdown_follows_no_link(void **unused)
{
    char link[256], target[256];

    (void)unused;
    host_setenv("CUDA_INJECTION64_PATH", "/opt/nsys/x.so");
    host_start("on");
    snprintf(target, sizeof(target), "%s/target", host.root);
    snprintf(link, sizeof(link), "%s/77.0/standdown", host.spool);
    close(open(target, O_CREAT | O_WRONLY, 0666));
    assert_int_equal(chmod(target, 0666), 0);
    assert_int_equal(symlink(target, link), 0);
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_JOB", "77");
    host_stop();
    {
        struct stat st;

        assert_int_equal(stat(target, &st), 0);
        assert_int_equal(st.st_size, 0);
    }
}

static void only_the_sources_asked_for(void **unused)
{
    (void)unused;
    host_start("sources=nccl,stacks");
    host_task(0, env, sizeof(env));
    assert_null(host_value(env, "CUDA_INJECTION64_PATH"));
    assert_non_null(host_value(env, "NCCL_PROFILER_PLUGIN"));
    assert_null(host_value(env, "NVTX_INJECTION64_PATH"));
    assert_value("ARGUS_SOURCES", "nccl,stacks");
    host_stop();
}

static void missing_collector_is_one_line(void **unused)
{
    (void)unused;
    unlink(host.argv[1] + strlen("collector="));
    host_start("on");
    for (int i = 0; i < 2; i++) {
        host_task(i, env, sizeof(env));
        assert_untraced();
        assert_int_equal(strstr(env, "said=argus: n7: /tmp/argus-spank-") != NULL, i == 0);
    }
    host_stop();
}

static void container_that_hides_us(void **unused)
{
    (void)unused;
    if (getuid())
        skip();
    host.chroot_away = true;
    host_start("on");
    host_task(0, env, sizeof(env));
    assert_untraced();
    assert_non_null(strstr(env, "not there as seen by the task; not traced"));
    host_stop();
}

static void listed_twice(void **unused)
{
    (void)unused;
    host.lines = 2;
    host_start("on");
    assert_int_equal(host.options, 1);
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_JOB", "77");
    host_task_exit(0);
    assert_false(host_gone(host_recorder_pid(), 0));
    host_task_exit(1);
    host_exit();
    host_unload();
    assert_string_equal(host.said, "");
    assert_false(host_exists("%s/77.0", host.spool));
}

static void listed_twice_by_two_paths(void **unused)
{
    (void)unused;
    host_copy(".libs/spank_check.so", host.copy, sizeof(host.copy));
    host_start("on");
    assert_int_equal(host.options, 1);
    host_task(0, env, sizeof(env));
    assert_value("ARGUS_JOB", "77");
    host_stop();
    assert_string_equal(host.said, "");
    assert_true(host_exists("%s/jobs/77/0", host.spool));
}

static void srun_says_what_is_wrong_once(void **unused)
{
    (void)unused;
    host.context = S_CTX_LOCAL;
    host_arg("windw=3");
    host_arg("ring_mb=-4");
    host_load();
    host_init();
    assert_int_equal(host_option("full,floor=2,dir=/root"), 0);
    assert_int_equal(host_option("full,floor=2,dir=/root"), 0);
    host_post_opt();
    host_exit();
    host_unload();
    assert_string_equal(
        host.said,
        "argus: plugstack.conf: windw=3: unknown key; ignored\n"
        "argus: plugstack.conf: ring_mb=-4: must be a whole number from 1 to 4096; 32 is used\n"
        "argus: --argus=floor=2: unknown key; ignored\n"
        "argus: --argus=dir=/root: only plugstack.conf may set this key; ignored\n");
    assert_nothing_made();
}

static void sbatch_leaves_the_site_to_srun(void **unused)
{
    (void)unused;
    host.context = S_CTX_ALLOCATOR;
    host_arg("windw=3");
    host_load();
    host_init();
    assert_int_equal(host.options, 1);
    assert_int_equal(host_option("fast"), 0);
    host_post_opt();
    host_exit();
    host_unload();
    assert_string_equal(host.said, "argus: --argus=fast: must be on, off, summary, full or "
                                   "key=value; ignored\n");
}

/* A program that says it was called, then does what `script` says. */
static void summary_program(const char *script)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/program", host.root);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho \"$*\" >>%s/called\n%s\n", host.root, script);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("ARGUS_TEST_PROGRAM", path, 1);
}

/* From srun's start to its end; the step had data if `data`. */
static void run_srun(const char *argument, bool data)
{
    const char *user = "root";
    char path[320];

    host.context = S_CTX_LOCAL;
    setenv("SLURM_SUBMIT_DIR", host.root, 1);
    unsetenv("ARGUS_SPANK_SAID");
    if (getuid())
        user = getenv("LOGNAME");
    for (int i = 0; data && i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s%s%s", host.root, user ? user : "", i > 0 ? "/77" : "",
                 i > 1 ? "/step-0" : "");
        mkdir(path, 0755);
    }
    host_load();
    host_init();
    if (argument)
        host_option(argument);
    host_post_opt();
    host_local_user_init();
    host_exit();
    host_unload();
    unsetenv("SLURM_SUBMIT_DIR");
}

static int times_called(void)
{
    char path[128], line[512];
    int n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/called", host.root);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        assert_memory_equal(line, "report --summary /", 18);
        assert_non_null(strstr(line, "/77/step-0\n"));
        n++;
    }
    if (f)
        fclose(f);
    return n;
}

static void summary_is_asked_for_once_at_the_end(void **unused)
{
    (void)unused;
    if (getuid())
        skip();
    summary_program("exit 1");
    run_srun("on", true);
    run_srun("full,summary=off", true);
    run_srun("summary,off", true);
    assert_int_equal(times_called(), 0);
    run_srun("summary", true);
    assert_int_equal(times_called(), 1);
    host_copy(".libs/spank_check.so", host.copy, sizeof(host.copy));
    host.lines = 2;
    run_srun("full,summary", true);
    assert_int_equal(times_called(), 2);
    host_arg("summary=on");
    run_srun(NULL, true);
    assert_int_equal(times_called(), 2);
    run_srun("on", true);
    assert_int_equal(times_called(), 3);
    host_arg("mode=off");
    run_srun("on", true);
    assert_int_equal(times_called(), 3);
    assert_string_equal(host.said, "");
}

static void no_summary_without_a_step(void **unused)
{
    (void)unused;
    summary_program("exit 0");
    run_srun("summary", false);
    assert_int_equal(times_called(), 0);
    setenv("ARGUS_TEST_PROGRAM", "/nonexistent/argus", 1);
    run_srun("summary", true);
    assert_string_equal(host.said, "");
}

static void summary_that_hangs_is_killed(void **unused)
{
    (void)unused;
    if (getuid())
        skip();
    summary_program("trap : TERM; while :; do sleep 0.1; done");
    run_srun("summary", true);
    assert_int_equal(times_called(), 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void other_contexts_do_nothing(void **unused)
{
    static const spank_context_t contexts[] = {S_CTX_SLURMD, S_CTX_JOB_SCRIPT, S_CTX_ERROR};

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        host.context = contexts[i];
        host_load();
        host_init();
        host_post_opt();
        host_exit();
        host_unload();
    }
    assert_int_equal(host.options, 0);
    assert_string_equal(host.said, "");
    assert_nothing_made();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(traced_step_gets_its_environment),
        T(marker_says_what_the_step_is),
        T(off_unless_asked_for),
        T(default_on_wants_gpus),
        T(off_beats_default_on),
        T(site_mode_off_beats_everything),
        T(rules_of_the_site),
        T(plain_option_in_all_its_forms),
        T(last_option_wins_whole),
        T(extern_step_is_left_alone),
        T(batch_step_is_lazy),
        T(batch_step_of_a_restarted_job),
        T(step_inside_a_traced_script),
        T(users_variables_are_kept),
        T(standdown_follows_no_link),
        T(only_the_sources_asked_for),
        T(missing_collector_is_one_line),
        T(container_that_hides_us),
        T(listed_twice),
        T(listed_twice_by_two_paths),
        T(srun_says_what_is_wrong_once),
        T(sbatch_leaves_the_site_to_srun),
        T(summary_is_asked_for_once_at_the_end),
        T(no_summary_without_a_step),
        T(summary_that_hangs_is_killed),
        T(other_contexts_do_nothing),
    };

    return cmocka_run_group_tests_name("spank plugin", tests, NULL, NULL);
}
