#!/bin/sh
# hook.sh EVENT CLIENT: asks wfctl what an agent's client is to be told, where there is a log.
# Nothing that goes wrong here stops the client: an exit code of wfctl would mean something to it.
folder=${CLAUDE_PROJECT_DIR:-${GEMINI_PROJECT_DIR:-$PWD}}
top=$folder
while [ ! -e "$top/.wfctl/config.toml" ]; do
  [ -n "$top" ] || exit 0
  case $top in
  */*) top=${top%/*} ;;
  *) exit 0 ;;
  esac
done
WFCTL_ACTOR=${WFCTL_ACTOR:-agent:$2}
export WFCTL_ACTOR
cd "$folder" && wfctl agent hook "$1"
exit 0
