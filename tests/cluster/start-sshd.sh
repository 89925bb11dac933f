#!/usr/bin/env bash
# An sshd on loopback, for the tests: `start-sshd.sh DIR PORT` starts it, or finds it running;
# `start-sshd.sh DIR PORT stop` ends it. Needs Debian's openssh-server and no root: an sshd of an
# ordinary user account accepts that account only. Keys, configuration and process id lie below DIR. A Slurm of the tests is passed on by SLURM_CONF.
# Who logs in has an empty home below DIR: bash reads ~/.bashrc for each command that sshd starts, and
# what a person keeps there can take longer than the command.
set -euo pipefail

dir=$1
port=$2

runs() { [ -s "$dir/sshd.pid" ] && grep -qx sshd "/proc/$(cat "$dir/sshd.pid")/comm" 2>/dev/null; }

if [ "${3:-}" = stop ]; then
  ! runs || kill "$(cat "$dir/sshd.pid")"
  exit 0
fi

mkdir -p "$dir/home"
# An sshd of root separates its privileges in this folder.
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
chmod 700 "$dir"
for key in host_key id_ed25519; do
  [ -f "$dir/$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$dir/$key"
done
cp "$dir/id_ed25519.pub" "$dir/authorized_keys"
cat >"$dir/sshd_config" <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $dir/host_key
PidFile $dir/sshd.pid
AuthorizedKeysFile $dir/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
MaxStartups 100
SetEnv HOME=$dir/home${SLURM_CONF:+ SLURM_CONF=$SLURM_CONF}
CONF
runs || /usr/sbin/sshd -f "$dir/sshd_config" -E "$dir/sshd.log"
for _ in $(seq 50); do
  if ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR \
    -o UserKnownHostsFile="$dir/known_hosts" -i "$dir/id_ed25519" -p "$port" \
    "$(id -un)@127.0.0.1" true; then
    exit 0
  fi
  sleep 0.2
done
echo "sshd does not answer on port $port; its log is $dir/sshd.log" >&2
exit 1
