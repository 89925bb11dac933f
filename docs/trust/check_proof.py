"""Check a proof: python check_proof.py PROOF PUBLIC-KEY [FILE]"""

import hashlib
import json
import re
import sys
import zlib
from base64 import b64decode, b64encode

WORDS = (  # what zlib is told before
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
KEEP = "surrogateescape"
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def add(p, q):  # two points of the curve of RFC 8032
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(number, p):
    sum_ = times(number // 2, add(p, p)) if number else (0, 1, 1, 0)
    return add(sum_, p) if number % 2 else sum_


def point(encoded):
    sign, y = divmod(int.from_bytes(encoded, "little"), 2**255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or y >= P:
        sys.exit("no point of the curve")
    x = P - x if x % 2 != sign else x
    return x, y, 1, x * y % P


def is_signed(key, text, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    number = int.from_bytes(hashlib.sha512(r + key + text).digest(), "little") % L
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    one, two = times(s, base), add(point(r), times(number, point(key)))
    return (
        len(signature) == 64
        and s < L
        and all((one[i] * two[2] - two[i] * one[2]) % P == 0 for i in (0, 1))
    )


def root(leaf, index, first, end, path):  # RFC 6962, section 2.1
    if end - first == 1:
        return leaf
    middle, beside = first + (1 << (end - first - 1).bit_length() - 1), path.pop()
    if index < middle:
        return sha256(b"\x01", root(leaf, index, first, middle, path), beside)
    return sha256(b"\x01", beside, root(leaf, index, middle, end, path))


def key_of(signature, text):  # an SSH signature by Ed25519: PROTOCOL.sshsig of OpenSSH
    blob, fields = b64decode("".join(signature.splitlines()[1:-1])), []
    at = 10
    while at < len(blob):
        size = int.from_bytes(blob[at : at + 4], "big")
        fields.append(blob[at + 4 : at + 4 + size])
        at += 4 + size
    key, space, spare, name, made = fields
    signed = [space, spare, name, hashlib.new(name.decode(), text).digest()]
    signed = b"SSHSIG" + b"".join(len(one).to_bytes(4, "big") + one for one in signed)
    if not key.startswith(b"\0\0\0\x0bssh-ed25519"):
        return "a key that this script cannot check"
    if space != b"wfctl" or not is_signed(key[-32:], signed, made[-64:]):
        sys.exit("a signature does not hold")
    return "SHA256:" + b64encode(sha256(key)).decode().rstrip("=")


def show(text):  # on one line: what cannot be seen is spelled
    print("".join(one if one.isprintable() else ascii(one)[1:-1] for one in text))


def take(digest, what, by):
    text = texts.pop(digest, None)
    show(f"{what} not shown" if text is None else f"{what} {text.decode(errors=KEEP)}")
    print(f"  proven by {by}")
    return text


def agreed(event):
    proof, name = event["data"].get("proof") or {}, event["data"]["amendment"]
    text = take(proof.get("statement"), "statement", f"its digest in the approval of {ascii(name)}")
    said = json.loads(text or "{}")
    policy = said.get("policy") if proof.get("policy") == "mandate" else proof.get("policy")
    bound = [event["prev_hash"], policy, name]
    if said and [said["head"], said["policy"], said["amendment"]["id"]] != bound:
        sys.exit("a statement of another head, policy or amendment")
    if said and "signature" in proof:
        show(f"key {key_of(proof['signature'], text)}")
        print("  proven by its signature of the statement")


def decoded(text):
    found = b64decode(text)
    if b64encode(found).decode() != text:
        sys.exit("base64 that is not written once and for all")
    return found


def value_in(content):  # at a JSON pointer (RFC 6901), or of a task in the record
    if "task" in claim:
        rows = map(json.loads, content.splitlines())
        return next(row for row in rows if row["key"] == claim["task"])["metrics"][claim["metric"]]
    value = json.loads(content)
    if not re.fullmatch("(/([^~/]|~[01])*)*", claim["pointer"]):
        sys.exit("no JSON pointer")
    for key in claim["pointer"].split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and not re.fullmatch("0|[1-9][0-9]*", key):
            sys.exit("no place in a list")
        value = value[int(key) if isinstance(value, list) else key]
    return value


def number_at():  # what the event itself records; None if two metrics at the place differ
    found = []
    for one in data.get("metrics") or []:
        metric, place = {"metric": one["name"]}, {"output": one["path"], "pointer": one["pointer"]}
        known = [{"task": one["task"]} | metric] if one["task"] else [place, place | metric]
        found += [one] if claim in known else []
    told = [[one.get(name) for name in ("value", "error", "unit")] for one in found]
    return found[0] if found and told == told[:1] * len(told) else None


# one line for a malformed proof; Python exits with 1 afterwards
sys.excepthook = lambda kind, error, _: print(
    f"the proof cannot be checked: {kind.__name__}", ascii(str(error))[:200], file=sys.stderr
)
head, note = open(sys.argv[1], "rb").read().decode().split("\n\n", 1)
first, extra, place, *path = head.split("\n")
text, signatures = note.split("\n\n")
origin, size, said = text.split("\n")[:3]
name, key_id, key = sys.argv[2].strip().split("+", 2)
*lines, end = [line.split(" ") for line in signatures.split("\n")]
mine = [decoded(content) for _, signer, content in lines if signer == name]
key, text = b64decode(key)[1:], f"{text}\n".encode()
held = [is_signed(key, text, one[4:]) for one in mine if one[:4].hex() == key_id]
if name != origin or not held or not all(held):
    sys.exit("the checkpoint is not signed with this key")
unpacking, at = zlib.decompressobj(zdict=WORDS), int(place.removeprefix("index "))
packed, way, cut = decoded(extra.removeprefix("extra ")), list(map(decoded, path)), []
line, content = unpacking.decompress(packed).split(b"\n", 1)
shown = json.loads(line.decode(errors=KEEP))
lengths, claim = shown["lengths"], shown.get("claim", {})
form = {"wfctl-proof": 2, "lengths": lengths} | ({"claim": claim} if claim else {})
if (
    [first, extra[:6], place, end] != ["c2sp.org/tlog-proof@v1", "extra ", f"index {at}", [""]]
    or any(s[0] != "\u2014" or "+" in s[1] or not s[1].isprintable() for s in lines)
    or not all(signer and len(decoded(content_)) > 4 for _, signer, content_ in lines)
    or json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode(errors=KEEP) != line
    or not all(type(one) is int and one > 0 for one in lengths)
    or not all(isinstance(one, str) for one in claim.values())
    or " ".join(claim)
    not in ("", "output", "output pointer", "output pointer metric", "task metric")
    or (unpacking.eof, unpacking.unused_data, sum(lengths)) != (True, b"", len(content))
):
    sys.exit("a proof of another form")
for length in lengths:
    cut, content = [*cut, content[:length]], content[length:]
if root(sha256(b"\0", cut[0]), at, 0, int(size), way) != b64decode(said) or way:
    sys.exit(f"version {at + 1} is not in the log")
event, texts = json.loads(cut[0].decode(errors=KEEP)), {sha256(one).hex(): one for one in cut[1:]}
if event["version"] != at + 1 or len(texts) + 1 != len(cut):
    sys.exit("an event of another version, or a text twice")
show(f"event {cut[0].decode(errors=KEEP)}")
print(f"  proven by the checkpoint of {size} events, which {name} signed")
if event["type"] == "amendment.approved":
    agreed(event)
data = event["data"] if event["type"] in ("stage.completed", "results.adopted") else {}
rests_on = data.get("rests_on") or {}
for what in ("attempt", "definition"):
    if rests_on.get(what):
        take(rests_on[what], what, "its digest in the event")
for name, digest in (rests_on.get("approvals") or {}).items():
    approval = take(digest, f"approval of {name}", "its digest in the event")
    if approval:
        agreed(json.loads(approval))
recorded = {one["path"]: one["sha256"] for one in data.get("outputs") or []}
claimed = rests_on.get("tasks") if "task" in claim else recorded.get(claim.get("output"))
if (claim and not claimed) or ({"output", "metric"} <= claim.keys() and not number_at()):
    sys.exit("the event does not record what is claimed")
given = open(sys.argv[3], "rb").read() if sys.argv[3:] else None
if given is not None and sha256(given).hex() != claimed:
    sys.exit(f"{sys.argv[3]} is not what was recorded")
if claim.keys() - {"output"}:
    found = take(claimed, f"file {claim.get('output', 'of the tasks')}", "its digest in the event")
    number, is_json = number_at(), claim.get("output", ".json").endswith(".json")
    found = None if number and not is_json else found if given is None else given
    if found is not None or number:
        value = number["value"] if found is None else value_in(found)
        show(f"value {json.dumps(value, allow_nan=False)} of {json.dumps(claim)}")
        if number:
            show(f"error {number['error']}, unit {number['unit']}")
        print(f"  proven by the {'event' if found is None else 'file'}")
elif claim:
    show(f"file {claimed} {claim['output']}")
    print("  proven by the event")
if texts:
    sys.exit("a text that nothing leads to")
