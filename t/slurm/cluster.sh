#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A whole Slurm cluster of its own on this machine, for the demonstration and
# the tests: munge, MariaDB, slurmdbd, slurmctld and N slurmd (n1, n2, ...) on
# loopback, everything in one private directory, on ports that are free now.
# Several may run at once.  It is stopped by the process ids it wrote down.
usage()
{
    cat <<'USAGE'
Usage: cluster.sh start [--dir DIR] [--nodes N] [--cpus N] [--gpus N]
                        [--plugin LINE]... [--epilog COMMAND] [--conf LINE]...
                        [--file FILE]...
       cluster.sh stop|status|env [DIR]
       cluster.sh plugstack [DIR] [LINE]...
       cluster.sh stop-node|kill-node|start-node DIR NODE
       cluster.sh stop-dbd|start-dbd DIR

start      makes DIR (default: a new one below ${TMPDIR:-/tmp}), starts the cluster,
           waits until every node is idle and prints shell assignments:
           SLURM_CONF, ARGUS_CLUSTER (= DIR), ARGUS_CLUSTER_USER (runs the jobs)
           and ARGUS_CLUSTER_WORK (a directory of that user).
             --nodes N       nodes, default 4
             --cpus N        CPUs a node claims to have, default 8
             --gpus N        GPUs a node claims to have, default 2, 0 for none
             --plugin LINE   a line of plugstack.conf, repeatable
             --epilog CMD    slurm.conf's Epilog
             --conf LINE     a further line of slurm.conf, repeatable
             --file FILE     to be copied beside slurm.conf, repeatable
stop       ends what start began and removes DIR (--keep-dir leaves it)
plugstack  writes plugstack.conf anew; the next srun reads it
stop-node  ends a node's slurmd, kill-node with SIGKILL; start-node starts it again
DIR may be left out where ARGUS_CLUSTER names it.
USAGE
}

set -u
PATH=$PATH:/usr/sbin:/sbin
umask 022

die()
{
    echo "cluster.sh: $*" >&2
    exit 1
}

# ---------------------------------------------------------------------------
# Processes: "name pid starttime" a line in DIR/pids.  The start time makes
# sure that a process id used again is never taken for ours.

start_time()
{
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

alive() # pid starttime
{
    [ -n "$2" ] && [ "$(start_time "$1")" = "$2" ] &&
        ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

launch() # name command...
{
    name=$1
    shift
    (
        cd "$dir" || exit 1
        exec setsid "$@" </dev/null >>"$dir/log/$name.out" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    ) &
    pid=$!
    echo "$name $pid $(start_time "$pid")" >>"$dir/pids"
}

forget() # name
{
    grep -v "^$1 " "$dir/pids" >"$dir/pids.new"
    mv "$dir/pids.new" "$dir/pids"
}

running() # name
{
    while read -r name pid started; do
        [ "$name" = "$1" ] && alive "$pid" "$started" && return 0
    done <"$dir/pids"
    return 1
}

signal() # SIGNAL pid starttime
{
    alive "$2" "$3" && kill "-$1" "$2" 2>/dev/null
}

# end NAME [SIGNAL]: ask, wait, insist.
end()
{
    while read -r name pid started; do
        [ "$name" = "$1" ] || continue
        signal "${2:-TERM}" "$pid" "$started" || continue
        i=0
        while alive "$pid" "$started"; do
            i=$((i + 1))
            [ $i -eq 50 ] && signal KILL "$pid" "$started"
            [ $i -gt 80 ] && break
            sleep 0.1
        done
    done <"$dir/pids"
    forget "$1"
}

wait_until() # seconds what command...
{
    deadline=$(($(date +%s) + $1))
    what=$2
    shift 2
    while ! "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -ge $deadline ] && {
            for log in "$dir"/log/*; do
                echo "== $log" && tail -n 5 "$log"
            done >&2
            die "$what did not come up; logs are in $dir/log"
        }
        sleep 0.1
    done
}

# Job steps and epilog workers of this cluster: they carry our SLURM_CONF in
# the environment they were started with.  srun and the caller's shell do,
# too, and are not ours to end.
strays()
{
    for p in $(grep -lsF "SLURM_CONF=$dir/slurm.conf" /proc/[0-9]*/environ); do
        p=${p%/environ}
        case $(cat "$p/comm" 2>/dev/null) in
        slurmstepd | argus-epilog | argus-record) ;;
        *) grep -qzs '^SLURM_JOB_ID=' "$p/environ" || continue ;;
        esac
        p=${p#/proc/}
        [ "$p" = $$ ] || echo "$p $(start_time "$p")"
    done
}

# ---------------------------------------------------------------------------
# Ports

port_free()
{
    ! grep -qiE "^ *[0-9]+: [0-9A-F]*:$(printf %04X "$1") " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# A free block of $1 ports, below the range that the kernel hands out.
free_ports()
{
    tries=0
    while [ $tries -lt 50 ]; do
        tries=$((tries + 1))
        base=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 600 * 20))
        port=$base
        while [ $port -lt $((base + $1)) ] && port_free $port; do
            port=$((port + 1))
        done
        [ $port -eq $((base + $1)) ] && return 0
    done
    die "no $1 free ports in a row"
}

# ---------------------------------------------------------------------------
# Configuration

write_plugstack() # line...
{
    for line in "$@"; do
        printf '%s\n' "$line"
    done >"$dir/plugstack.conf.new"
    mv "$dir/plugstack.conf.new" "$dir/plugstack.conf"
}

write_conf()
{
    [ "$gpus" -gt 0 ] && gres_type="GresTypes=gpu" gres="Gres=gpu:$gpus" || gres_type= gres=
    cat >"$dir/slurm.conf" <<CONF
ClusterName=argus
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.s
CryptoType=crypto/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=verbose
PlugStackConfig=$dir/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
AccountingStoragePass=$dir/munge.s
AccountingStoreFlags=job_comment
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=5
EpilogMsgTime=0
MessageTimeout=30
FirstJobId=$((ctld_port + 1))
$gres_type
$conf_lines
${epilog:+Epilog=$epilog}
NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$node_port-$((node_port + nodes - 1))] CPUs=$cpus RealMemory=4000 $gres
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO
CONF
    cat >"$dir/slurmdbd.conf" <<CONF
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$dbd_port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.s
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CONF
    chmod 600 "$dir/slurmdbd.conf"
    # No cgroup is used; slurmd looks for some all the same since 23.11.
    case $(slurmd -V) in
    *' '2[12].* | *' 23.02'*) ;;
    *) echo "CgroupPlugin=disabled" ;;
    esac >"$dir/cgroup.conf"
    if [ "$gpus" -gt 0 ]; then
        # Devices that do nothing: Slurm numbers them and never opens them.
        g=0
        while [ $g -lt "$gpus" ]; do
            mknod "$dir/dev/nvidia$g" c 1 3 2>/dev/null && chmod 666 "$dir/dev/nvidia$g"
            g=$((g + 1))
        done
        if [ -c "$dir/dev/nvidia0" ]; then
            echo "NodeName=n[1-$nodes] Name=gpu File=$dir/dev/nvidia[0-$((gpus - 1))]"
        else
            echo "NodeName=n[1-$nodes] Name=gpu Count=$gpus"
        fi >"$dir/gres.conf"
    fi
}

# ---------------------------------------------------------------------------
# Daemons

start_munge()
{
    dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 2>/dev/null
    chmod 600 "$dir/munge.key"
    launch munged munged --force --foreground --key-file="$dir/munge.key" \
        --socket="$dir/munge.s" --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" \
        --seed-file="$dir/munge.seed" --num-threads=4
}

mariadb_options()
{
    # Speed instead of durability: the data lives as long as the test.
    echo "--no-defaults --user=root --datadir=$dir/db --innodb-buffer-pool-size=16M
        --innodb-log-file-size=8M --innodb-flush-method=nosync --debug-no-sync
        --innodb-lock-wait-timeout=900 --performance-schema=off --skip-log-bin
        --aria-pagecache-buffer-size=8M --skip-name-resolve"
}

# The grant tables stay unread, so mariadb-install-db's half minute of help
# texts and time zones can be left out; slurmdbd's stored procedure needs the
# bare system tables.  slurmdbd would make its database itself, but then goes on
# with a connection that MariaDB's client library 11.8.9 allows no columns.
start_mariadb()
{
    for tables in /usr/share/mariadb/mariadb_system_tables.sql \
        /usr/share/mariadb/mysql_system_tables.sql /usr/share/mysql/mysql_system_tables.sql; do
        [ ! -r $tables ] || break
    done
    {
        echo "create database if not exists mysql;"
        echo "use mysql;"
        cat $tables
        echo "create database if not exists slurm;"
    } |
        mariadbd $(mariadb_options) --bootstrap --skip-grant-tables \
            >>"$dir/log/mariadb.out" 2>&1 ||
        die "cannot make the database; see $dir/log/mariadb.out"
    launch mariadb mariadbd $(mariadb_options) --skip-grant-tables --skip-networking \
        --socket="$dir/db.s" --pid-file="$dir/db.pid" --log-error="$dir/log/mariadb.log"
}

dbd_up()
{
    timeout 5 sacctmgr -nP list cluster
}

start_dbd()
{
    launch slurmdbd env MYSQL_UNIX_PORT="$dir/db.s" slurmdbd -D
    wait_until 60 slurmdbd dbd_up
}

start_node() # name
{
    mkdir -p "$dir/spool/$1"
    # mpi/pmix makes a directory of the step's name in there: not the same for two nodes.
    mkdir -p -m 1777 "$dir/tmp/$1"
    launch "slurmd.$1" slurmd -D -N "$1"
}

nodes_idle()
{
    [ "$(timeout 5 sinfo -hN -o '%N %t' | grep -c ' idle$')" -eq "$nodes" ]
}

# ---------------------------------------------------------------------------
# Commands

print_env()
{
    cat <<ENV
SLURM_CONF=$dir/slurm.conf; export SLURM_CONF
ARGUS_CLUSTER=$dir; export ARGUS_CLUSTER
ARGUS_CLUSTER_USER=nobody; export ARGUS_CLUSTER_USER
ARGUS_CLUSTER_WORK=$dir/work; export ARGUS_CLUSTER_WORK
ENV
}

cmd_start()
{
    dir= nodes=4 cpus=8 gpus=2 epilog= conf_lines= plugins= files=
    while [ $# -gt 0 ]; do
        case $1 in
        --dir | --nodes | --cpus | --gpus | --plugin | --epilog | --conf | --file)
            [ $# -ge 2 ] || die "$1 needs a value"
            ;;
        *) die "no option $1; --help lists them" ;;
        esac
        case $1 in
        --dir) dir=$2 ;;
        --nodes) nodes=$2 ;;
        --cpus) cpus=$2 ;;
        --gpus) gpus=$2 ;;
        --epilog) epilog=$2 ;;
        --plugin) plugins="$plugins$2
" ;;
        --conf) conf_lines="$conf_lines$2
" ;;
        --file)
            files="$files$2
"
            ;;
        esac
        shift 2
    done
    [ "$(id -u)" -eq 0 ] || die "root is needed: jobs change the user"
    for program in munged mariadbd slurmdbd slurmctld slurmd sacctmgr srun; do
        command -v $program >/dev/null || die "$program is not installed"
    done
    [ -n "$dir" ] || dir=$(mktemp -d "${TMPDIR:-/tmp}/slurm.XXXXXX") || exit 1
    mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1
    # sun_path holds 107 bytes.
    [ ${#dir} -le 80 ] || die "$dir: too long for the sockets below it"
    [ ! -e "$dir/pids" ] || die "$dir: there is a cluster already"
    chmod 755 "$dir"
    mkdir -p "$dir/log" "$dir/state" "$dir/spool" "$dir/tmp" "$dir/db" "$dir/work" "$dir/dev"
    chown nobody: "$dir/work"
    : >"$dir/pids"
    trap 'rc=$?; [ $rc -eq 0 ] || stop_all; exit $rc' EXIT

    free_ports $((nodes + 2))
    ctld_port=$base dbd_port=$((base + 1)) node_port=$((base + 2))
    write_conf
    write_plugstack "$plugins"
    printf %s "$files" | while read -r file; do
        cp "$file" "$dir/" || exit 1
    done || die "cannot copy the files"
    SLURM_CONF=$dir/slurm.conf
    export SLURM_CONF
    start_munge
    start_mariadb
    wait_until 30 MariaDB test -S "$dir/db.s"
    wait_until 30 munge test -S "$dir/munge.s"
    start_dbd
    sacctmgr -iQ add cluster argus >/dev/null || die "cannot add the cluster to slurmdbd"
    launch slurmctld slurmctld -D
    i=1
    while [ $i -le "$nodes" ]; do
        start_node n$i
        i=$((i + 1))
    done
    wait_until 60 "an idle cluster" nodes_idle
    print_env
}

stop_all()
{
    SLURM_CONF=$dir/slurm.conf
    export SLURM_CONF
    if running slurmctld; then
        timeout 10 scancel -u nobody >/dev/null 2>&1
    fi
    # Steps end by themselves once their job is cancelled; those that do not
    # are ended before the daemons that would wait for them.
    i=0
    while left=$(strays) && [ -n "$left" ] && [ $i -lt 30 ]; do
        i=$((i + 1))
        sleep 0.1
    done
    for round in 1 2 3; do
        strays | while read -r pid started; do signal KILL "$pid" "$started"; done
        [ $round -eq 1 ] || continue
        for name in $(cut -d' ' -f1 "$dir/pids" | grep '^slurmd\.'); do end "$name"; done
        for name in slurmctld slurmdbd mariadb munged; do end $name; done
    done
}

cmd_stop()
{
    stop_all
    [ "$keep_dir" = yes ] || rm -rf "$dir"
}

cmd_status()
{
    rc=0
    while read -r name pid started; do
        if alive "$pid" "$started"; then
            echo "$name $pid running"
        else
            echo "$name $pid gone"
            rc=1
        fi
    done <"$dir/pids"
    return $rc
}

# use_dir DIR: a cluster of ours, by its list of processes.
use_dir()
{
    dir=${1:-${ARGUS_CLUSTER:-}}
    [ -n "$dir" ] || die "which cluster? name its directory or set ARGUS_CLUSTER"
    [ -r "$dir/pids" ] || die "$dir: no cluster here"
    SLURM_CONF=$dir/slurm.conf
    export SLURM_CONF
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
start)
    cmd_start "$@"
    ;;
stop)
    keep_dir=no
    [ "${1:-}" = --keep-dir ] && keep_dir=yes && shift
    use_dir "${1:-}"
    cmd_stop
    ;;
status)
    use_dir "${1:-}"
    cmd_status
    ;;
env)
    use_dir "${1:-}"
    print_env
    ;;
plugstack)
    case ${1:-} in
    /*) use_dir "$1" && shift ;;
    *) use_dir "" ;;
    esac
    write_plugstack "$@"
    ;;
stop-node)
    use_dir "${1:-}"
    end "slurmd.$2"
    ;;
kill-node)
    use_dir "${1:-}"
    end "slurmd.$2" KILL
    ;;
start-node)
    use_dir "${1:-}"
    start_node "$2"
    ;;
stop-dbd)
    use_dir "${1:-}"
    end slurmdbd
    ;;
start-dbd)
    use_dir "${1:-}"
    start_dbd
    ;;
-h | --help | help)
    usage
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
