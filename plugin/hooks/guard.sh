#!/bin/sh
# Says the right command where an agent is about to write a file that wfctl keeps (exit 2).
# A courtesy, and no more: wfctl sees every hand edit, by whatever way it came (`wfctl drift show`).
# The client's JSON comes on stdin; guard.awk beside this reads which paths the call would write.
input=$(cat)
case $input in
*workflow-state* | *progress* | *wfctl* | *.state.* | *memory* | *conductor* | *tracks* | *DPDISP_*) ;;
*[\*?\[]*) case $input in *rm* | *mv* | *'>'* | *sed* | *find*) ;; *) exit 0 ;; esac ;;
*) exit 0 ;;
esac

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
of_logs='`wfctl log` and `wfctl audit sql SQL` read it; every other command writes it.'

of_markers='`wfctl reconcile` reads it; `wfctl stage fail STAGE --error TEXT` gives an attempt up.'

# judge NAME: denies a path below $top, as it is named there.
judge() {
  case $1 in
  .wfctl | .wfctl/*) deny ".wfctl/" "$of_logs" ;;
  workflow-state.json) deny "$1" "$of_stages" ;;
  progress.log) deny "$1" '`wfctl note TEXT` adds a line.' ;;
  */DPDISP_DONE | */DPDISP_EXIT_CODE)
    echo "The monitor of the job writes $1 as the job ends. $of_markers" >&2
    exit 2
    ;;
  */*.state.json) ;;
  *.state.json | memory/state/phase.json | memory/state/execution.json | conductor/tracks/*/metadata.json)
    deny "$1" "$of_machines" ;;
  esac
}

# judge_folder NAME: denies a folder that holds files of machines.
judge_folder() {
  case $1 in
  memory | memory/state) set -- "$1" "$top"/memory/state/phase.json ;;
  conductor | conductor/tracks) set -- "$1" "$top"/conductor/tracks/*/metadata.json ;;
  conductor/tracks/*) set -- "$1" "$top/$1/metadata.json" ;;
  *) return ;;
  esac
  [ ! -e "$2" ] || deny "files in $1" "$of_machines"
}

# of_file KIND PATH: judges a path, whatever links and dots lie in it.
of_file() {
  path=$2
  case $path in /*) ;; *) return ;; esac
  while :; do
    case $path in
    */ | */.) path=${path%/*} ;;
    *) break ;;
    esac
  done
  last=${path##*/}
  folder=${path%/*}/
  if [ "$last" = .. ]; then
    folder=$path
    last=.
  fi
  until cd -P -- "$folder" 2>/dev/null; do
    folder=${folder%/}
    last=${folder##*/}/$last
    folder=${folder%/*}/
  done
  path=${PWD%/}/$last
  path=${path%/.}
  if [ "$1" = d ] && [ -e "$path/.wfctl/config.toml" ]; then
    case $here/ in "$path"/*) deny "the files in $path" "$of_logs" ;; esac
  fi
  kept_below "${path%/*}" || return 0
  judge "${path#"$top"/}"
  [ "$1" != d ] || judge_folder "${path#"$top"/}"
}

IFS='	
'
printf '%s' "$input" | PWD=$PWD LC_ALL=C awk -f "${0%/*}/guard.awk" 2>/dev/null | while read -r kind path name; do
  case $kind in
  s) here=$(cd -P -- "$path" 2>/dev/null && pwd) || exit 0 ;;
  t)
    case $path in */) path=$path$name ;; *) [ ! -d "$path" ] || path=$path/$name ;; esac
    of_file w "$path"
    ;;
  ?\*) for one in $path; do of_file "${kind%?}" "$one"; done ;;
  *) of_file "$kind" "$path" ;;
  esac
done
[ $? -ne 2 ] || exit 2
exit 0
