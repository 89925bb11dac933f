#!/bin/sh
# hook.sh EVENT CLIENT: prints the answer of wfctl to an event of an agent's client, if the folder
# belongs to a workflow. The script always exits with 0, because the client would act on any other
# exit code.
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
