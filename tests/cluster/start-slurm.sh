#!/usr/bin/env bash
# A one-node Slurm on loopback, for the tests. `start-slurm.sh DIR PORT` starts it, or finds it
# running; `start-slurm.sh DIR PORT stop` stops its daemons. Needs Debian's slurm-wlm and munge, and
# no root: the daemons belong to the user account that starts them and run jobs of that account only.
# All files are written below DIR, so another Slurm on the machine is not touched. Clients need
# SLURM_CONF=DIR/slurm.conf. slurmctld listens on PORT, slurmd on the next port. With NODE_MB, jobs can
# request up to this amount of memory. With MIN_JOB_AGE, Slurm forgets an ended job after so many
# seconds, instead of 10.
set -euo pipefail

dir=$1
port=$2
host=$(hostname -s)
user=$(id -un)
export SLURM_CONF=$dir/slurm.conf

runs() { # pid file, name
  [ -s "$1" ] && [ "$(cat "/proc/$(cat "$1")/comm" 2>/dev/null)" = "$2" ]
}

until_true() { # tenths of a second, command
  local left=$1
  shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "never came true: $*" >&2; return 1; }
    sleep 0.1
  done
}

ended() { ! runs "$dir/$1.pid" "$1"; }

stop() { # name
  if runs "$dir/$1.pid" "$1"; then
    kill "$(cat "$dir/$1.pid")"
    until_true 200 ended "$1"
  fi
}

if [ "${3:-}" = stop ]; then
  for daemon in slurmd slurmctld munged; do stop "$daemon"; done
  exit 0
fi

mkdir -p "$dir"/{state,spool,munge}
chmod 755 "$dir" "$dir/munge"
if [ ! -s "$dir/munge.key" ]; then
  (umask 077 && dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 status=none)
fi
authenticates() { munge -S "$dir/munge/socket" -n | unmunge -S "$dir/munge/socket"; }
if ! runs "$dir/munged.pid" munged; then
  munged --force --socket="$dir/munge/socket" --key-file="$dir/munge.key" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" \
    2>/dev/null
fi
until_true 100 authenticates

# More processors than there are, so that no test waits for another's job.
cat >"$dir/slurm.conf.new" <<CONF
ClusterName=wfctl
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=${MIN_JOB_AGE:-10}
MessageTimeout=5
KillWait=2
InactiveLimit=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=32${NODE_MB:+ RealMemory=$NODE_MB} State=UNKNOWN
PartitionName=debug Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES:16
CONF
if cmp -s "$dir/slurm.conf.new" "$dir/slurm.conf"; then
  rm "$dir/slurm.conf.new"
else
  stop slurmd
  stop slurmctld
  mv "$dir/slurm.conf.new" "$dir/slurm.conf"
fi

# One that was started while its packages were unpacked, or its disk was full, is no more: it is
# started again. A busy machine gets its time.
up() { runs "$dir/slurmctld.pid" slurmctld || slurmctld; scontrol ping | grep -q 'is UP'; }
until_true 600 up || { tail -n 5 "$dir/slurmctld.log" >&2; exit 1; }
ready() {
  runs "$dir/slurmd.pid" slurmd || slurmd
  sinfo -h -o '%T' | grep -qxE 'idle|mixed|allocated'
}
until_true 600 ready || { tail -n 5 "$dir/slurmd.log" >&2; exit 1; }

# A job must run, else nothing was proved.
srun --quiet --output="$dir/proof" hostname -s
grep -qx "$host" "$dir/proof"
