"""What zlib knows before it reads a proof: the words that events of wfctl are written in.

It is part of the format: a proof of form 2 is unpacked with these bytes and no others, by the
script of ``docs/trust/proofs.md`` too. Without it a proof is half as long again.
"""

WORDS = (
    b'{"amendment":{"changes":{"parameters":{"description":"insert":null,"place":null,"reason":"re'
    b'wired":{},"stage":"type":"parameter_change"},"form":4,"head":"impact":{"affected":["stage-"]'
    b',"invalidated":[],"kept":{},"stopped":{}},"policy":"trust"terminal"signature","scripts":{},"'
    b'workflow":"{"backend":null,"depends_on":[],"id":"stage-1","inputs":["name":"outputs":["stage'
    b'-1/parameters":{"command":"success_criteria":"{"actor":{"kind":"user","name":"agent"runner"}'
    b',"causation_id":null,"command_id":"correlation_id":"data":{"amendment":"amend-1","approved_b'
    b'y":"invalidated_stages":["kept":{},"proof":{"form":4,"on":"/dev/tty","policy":"signature","s'
    b'ignature":"-----BEGIN SSH SIGNATURE-----\\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAA\\n---'
    b'--END SSH SIGNATURE-----\\n","signer":"statement":"scripts":{},"version":"attempt":"att-0001'
    b'","boot_id":"carried":[],"carried_from":null,"diagnostic":false,"BASH_ENV","COLORTERM","COND'
    b'A_DEFAULT_ENV","CONDA_EXE","CONDA_PREFIX","CONDA_PYTHON_EXE","CONDA_SHLVL","DBUS_SESSION_BUS'
    b'_ADDRESS","DISPLAY","HISTCONTROL","HOSTNAME","LANGUAGE","LC_ALL","LD_LIBRARY_PATH","LESSOPEN'
    b'","LMOD_CMD","LOADEDMODULES","LOGNAME","LS_COLORS","MAIL","MANPATH","MODULEPATH","MOTD_SHOWN'
    b'","OLDPWD","OMP_NUM_THREADS","PWD","SHELL","SHLVL","SSH_CLIENT","SSH_CONNECTION","SSH_TTY","'
    b'TERM","TERM_PROGRAM","TMUX","TMUX_PANE","USER","VIRTUAL_ENV","XDG_CONFIG_HOME","XDG_DATA_DIR'
    b'S","XDG_RUNTIME_DIR","XDG_SESSION_CLASS","XDG_SESSION_ID","XDG_SESSION_TYPE","XDG_STATE_HOME'
    b'","_CE_CONDA"],"beside":{""environment":{"names":["HOME","LANG","PATH","TMPDIR"],"python3":"'
    b'/usr/bin/python3","sha256":"values":{"LANG":"C.UTF-8","PATH":"/usr/local/bin:/usr/bin:/bin"}'
    b'},"host":"inputs":[{"path":"sha256":"size":"mode":"tmux","recovers":null,"root":"scripts":{}'
    b',"session":"dpdisp_stage-1_submission":"stage-1/.attempts/att-0001-/submission.json","submis'
    b'sion_sha256":"taken_over":false,"work_dir":"stage-1/.attempts/att-0001-/work","wrapper":"sta'
    b'ge-1/dpdisp-run.sh"},"checks":[{"detail":"file","findings":[],"name":"stage-1/ exists","pass'
    b'ed":true},{"detail":" bytes is not empty is newer than the launch reads as JSON reads as tex'
    b"t is finite no error lines, no warning lines /log was looked through /err was looked through"
    b'","judged_by":null,"outputs":[{"path":"stage-1/","sha256":"size":"rests_on":{"approvals":{"p'
    b'lan":"amend-1":"attempt":"definition":"tasks":null},"stage":"stage-1"},"detail":" checks pas'
    b'sed","evidence":null,"event_id":"occurred_at":"2026-prev_hash":"recorded_at":"2026-schema_ve'
    b'rsion":3,"session":1,"stream":"workflow-","type":"attempt.started"amendment.approved"stage.c'
    b'ompleted","utc_offset":"+00:00","version":'
)
