#!/bin/sh
# Says the right command where an agent is about to write a file that wfctl keeps (exit 2).
# A courtesy, and no more: wfctl sees every hand edit, by whatever way it came (`wfctl drift show`).
# The client's JSON comes on stdin. Here is no other program than cat: it runs before each tool.
input=$(cat)
case $input in
*workflow-state.json* | *progress.log* | *.wfctl* | *.state.json* | *memory/state* | *tracks/*) ;;
*) exit 0 ;;
esac

# value NAME: sets $value to the text of the input's field, as JSON spells it.
value() {
  case $input in
  *"\"$1\":\""*) value=${input#*\"$1\":\"} ;;
  *"\"$1\": \""*) value=${input#*\"$1\": \"} ;;
  *) return 1 ;;
  esac
}

# kept_below FOLDER: sets $top to the nearest folder upwards that holds a log.
kept_below() {
  top=$1
  while [ ! -e "$top/.wfctl/config.toml" ]; do
    case $top in
    */*) top=${top%/*} ;;
    *) return 1 ;;
    esac
  done
}

deny() {
  echo "wfctl writes $1 from its log; a hand edit of it is drift, and changes nothing. $2" >&2
  exit 2
}

of_stages='`wfctl stage --help` and `wfctl dispatch STAGE` move a stage on; `wfctl amend propose --stage STAGE --set PATH=VALUE --reason TEXT` asks for another definition.'
of_machines='`wfctl machine update ID PATH=VALUE`, `wfctl machine task ID TASK --status STATUS` and `wfctl machine transition ID PHASE` change it.'

# judge NAME: denies a path below $top, as it is named there.
judge() {
  case $1 in
  .wfctl | .wfctl/*) deny ".wfctl/" '`wfctl log` and `wfctl audit sql SQL` read it; every other command writes it.' ;;
  workflow-state.json) deny "$1" "$of_stages" ;;
  progress.log) deny "$1" '`wfctl note TEXT` adds a line.' ;;
  */*.state.json) ;;
  *.state.json | memory/state/phase.json | memory/state/execution.json | conductor/tracks/*/metadata.json)
    deny "$1" "$of_machines" ;;
  esac
}

# of_file PATH: judges a path, whatever links and dots lie in it.
of_file() {
  case $1 in
  /*) path=$1 ;;
  *) path=$PWD/$1 ;;
  esac
  cd -P -- "${path%/*}/" 2>/dev/null || return 0
  path=$PWD/${path##*/}
  path=/${path#/}
  kept_below "${path%/*}" && judge "${path#"$top"/}"
  cd -P -- "$here" 2>/dev/null || exit 0
}

here=$PWD
if value cwd; then
  here=${value%%\"*}
fi
cd -P -- "$here" 2>/dev/null || exit 0
here=$PWD
for name in file_path notebook_path filePath; do
  if value "$name"; then
    of_file "${value%%\"*}"
    exit 0
  fi
done
value command || exit 0
command=${value%%\",\"*}
command=${command%\"\}*}

# word TEXT: the first word of a text, without quotes; where a redirection leads.
word() {
  word=${1#[>|]}
  word=${word#"${word%%[! ]*}"}
  word=${word#\\\"}
  word=${word#\'}
  word=${word%%[ \;\&\|\)\'\"\\]*}
}

rest=$command
while :; do
  case $rest in
  *'>'*) rest=${rest#*>} ;;
  *) break ;;
  esac
  word "$rest"
  [ -z "$word" ] || of_file "$word"
done
rest=$command
while :; do
  case $rest in
  *' File: '*) rest=${rest#* File: } ;;
  *) break ;;
  esac
  of_file "${rest%%\\n*}"
done
kept_below "$here" || exit 0
for name in workflow-state.json progress.log .state.json memory/state/ conductor/tracks/ .wfctl; do
  case $command in
  *"sed -i"*"$name"* | *"perl -"*"-i"*"$name"* | *"perl -i"*"$name"* | *"perl -pi"*"$name"* | \
    *"tee "*"$name"* | *"truncate "*"$name"* | *"of="*"$name"* | *"sqlite3 "*"$name"* | \
    *"git checkout "*"$name"* | *"git restore "*"$name"* | "rm "*"$name"* | *[\;\&\|\ ]"rm "*"$name"* | \
    "mv "*"$name"* | *[\;\&\|\ ]"mv "*"$name"* | "cp "*"$name" | *[\;\&\|\ ]"cp "*"$name" | \
    *python*"$name"*"'w"* | *python*"$name"*'\"w'* | *python*"$name"*write_* | *python*"$name"*dump*)
    case $name in
    .wfctl) judge .wfctl ;;
    .state.json | memory/state/ | conductor/tracks/) deny "a machine's file" "$of_machines" ;;
    *) judge "$name" ;;
    esac ;;
  esac
done
exit 0
