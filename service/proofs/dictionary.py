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
    b'","boot_id":"carried":[],"carried_from":null,"diagnostic":false,"environment":{"names":["HOM'
    b'E","LANG","PATH","TMPDIR"],"python3":"/usr/bin/python3","sha256":"values":{"LANG":"C.UTF-8",'
    b'"PATH":"/usr/local/bin:/usr/bin:/bin"}},"host":"inputs":[{"path":"sha256":"size":"mode":"tmu'
    b'x","recovers":null,"root":"scripts":{},"session":"dpdisp_stage-1_submission":"stage-1/.attem'
    b'pts/att-0001-/submission.json","submission_sha256":"taken_over":false,"work_dir":"stage-1/.a'
    b'ttempts/att-0001-/work","wrapper":"stage-1/dpdisp-run.sh"},"checks":[{"detail":"file","findi'
    b'ngs":[],"name":"stage-1/ exists","passed":true},{"detail":" bytes is not empty is newer than'
    b" the launch reads as JSON reads as text is finite no error lines, no warning lines /log was "
    b'looked through /err was looked through","judged_by":null,"outputs":[{"path":"stage-1/","sha2'
    b'56":"size":"rests_on":{"approvals":{"plan":"amend-1":"attempt":"definition":"tasks":null},"s'
    b'tage":"stage-1"},"detail":" checks passed","evidence":null,"event_id":"occurred_at":"2026-pr'
    b'ev_hash":"recorded_at":"2026-schema_version":3,"session":1,"stream":"workflow-","type":"atte'
    b'mpt.started"amendment.approved"stage.completed","utc_offset":"+00:00","version":'
)
