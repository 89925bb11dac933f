"""Detection of shell commands that run a script whose name the command does not contain."""

from __future__ import annotations

import ast
import json
import re
import shlex
import time
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lifecycle.words.commands import find_named_scripts
from lifecycle.words.unknown_files import find_unknown_files

_REPOSITORY = Path(__file__).resolve().parents[2]
_SHARED = _REPOSITORY.parent / "shared/data"
_LAUNCHERS = (
    *("sh", "bash -x", "python3", "python3 -u -W ignore", "perl", "julia", "Rscript", "node"),
    *("awk -f", "sed -n -f", "make -f", ".", "nice -n 5 sh", "env A=1 timeout 60 python3"),
    *("mpirun -np 4 python3", "then source", "do sh", "/usr/bin/env bash"),
)
_HIDDEN_NAMES = (
    *("$X", "${X}.sh", "$WFCTL_PARAM_s", '"$WFCTL_PARAM_s"', "*.sh", "[ab].sh", "~/x.sh"),
    *("$(ls *.sh)", '"$(ls *.sh)"', "`ls`", "$WFCTL_ROOT/$X"),
)
_HIDDEN = r"""
for f in *.sh; do sh $f; done
while read f; do sh $f; done < list
find . -name '*.sh' -exec sh {} \;
find . -name '*.sh' -exec {} \;
ls *.sh | xargs sh
ls | xargs -I{} sh -c '{}'
ls | xargs -I{} {}
parallel sh ::: *.sh
ls | parallel
cat x.sh | sh
cat x.sh | bash -s a
curl http://example.org | python3
{ cat x.sh; } | { sh; }
sh < $X
sh <(cat x.sh)
bash <<< "$X"
bash <<< "sh $X"
python3 - < $X
python3 -m $X
python3 -c 'exec(open("x").read())'
python3 -c 'import subprocess; subprocess.run(["./x.sh"])'
python3 -c 'import os; os.system("./x.sh")'
python3 -c "$X"
Rscript -e 'source("x.R")'
perl -e 'do "x.pl"'
awk 'BEGIN {system("sh x.sh")}'
PATH=$PWD/bin:$PATH tool
PATH=.:$PATH; tool
export PATH=bin:$PATH; tool
BASH_ENV=x.sh bash -c true
eval "$X"
eval "sh $X"
trap 'sh $X' EXIT
bash -c "$X"
bash -c 'sh $0' x.sh
bash -euo pipefail -c 'sh $X'
echo "$(sh $X)"
cd $X && sh run.sh
make -C $X
X=./run.sh; $X
./$WFCTL_PARAM_s
$(cat x)
./bin/*
$HOME/bin/tool x
$LMP -in x
"$PYTHON" ../fit.py
sh $(cat x)
cat x > >(sh)
cat x | tee >(sh)
sh < <(cat x)
(cat x)|sh
cat x | (sh)
(cd $X; sh run.sh)
(cd $X; case a in a) true;; esac; sh run.sh)
if cd sub; then true; fi; sh run.sh
cd -; sh run.sh
sed -n '1e' x
sed '1!e' x
sed '/a/{s/x/y/e}' x
sed -e p -e 's/x/y/ge' x
sed 'w x' x; sed 's/x/y/;e' x
[[ a ]]; $X y ]]
sh -c '[[ a || $SHELL y ]]'
env -S 'sh x'
env --split-string='sh x'
env -C sub sh x
alias a='sh x'
enable -f ./x x
hash -p ./x ls
eval sh '${x}'
sh /dev/stdin < x
echo '#'; sh $X
{sh,x}
function f { sh $X; }
xargs $SHELL
find . -exec $SHELL x ;
gnuplot $X
gnuplot a.gp $X
gnuplot -e 'load "x"'
read PATH < x; tool
printf -v PATH bin; tool
declare -n p=PATH; p=bin; tool
"""
_SHELL_FORMS = (
    *("", "builtin ", "command ", "nice ", "/usr/bin/env A=1 ", "then ", "function f { "),
    *("(", "cat y | ", "nohup timeout 5 ", "A[0]+=1 "),
)
_PROGRAM_WORDS = (
    *('"$SHELL" x', "$SHELL", "${a[0]}", "$'\\x65val' y", "`cat x`", 'eval "$(cat x)"', ". $X"),
    *("source *.sh", "a$X/b x", 'eval "sh $X"', "fish $X", "tcsh *.csh", "rbash *", "gnuplot $X"),
    *("csh $X", "dash $X", "ksh $X", "zsh $X", "ruby $X", "octave $X", "lua $X", "tclsh $X"),
)
_VARIABLE_NAMES = (
    *("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP"),
    *("PYTHONHOME", "PERL5LIB", "PERL5OPT", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS", "BASH_ENV"),
    *("ENV", "SHELL"),
)
_VARIABLE_FORMS = (
    *("{}=bin tool", "{}=bin; tool", "{}+=:bin; tool", "export {}=bin; tool", "env {}=bin tool"),
    *("declare -x {}=bin; tool", "typeset {}=bin; tool", "export {}+=:bin", "readonly {}=bin"),
    *("read {} < x", "for {} in bin; do tool; done", "export A=1 {}=.:/usr/bin", "A=1 {}=bin tool"),
)
_PYTHON_USES = (
    *("e = {}; e(x)", "x = [{}]", "import {}", "from a import {}", "import a.{}", "a.{}(x)"),
    *("from {} import b", "from a import b as c, {}", "print({}", "x = '$(cat {})'"),
)
_PYTHON_NAMES = (
    *("exec", "eval", "compile", "__import__", "importlib", "runpy", "subprocess", "system"),
    *("popen", "execv", "spawnl", "builtins", "getattr", "globals", "__dict__", "pickle"),
)

_HONEST = r"""
echo $((WFCTL_PARAM_N*2)) > r2.csv
python3 ../fit.py $WFCTL_PARAM_x
python3 -W ignore -u ../fit.py $X
lmp -in in.lammps -var T $WFCTL_PARAM_T
mpirun -np 4 lmp -in in.lammps
mpirun -np $N lmp -in in.lammps
srun -p node lmp
export LD_LIBRARY_PATH=/opt/lammps/lib:$LD_LIBRARY_PATH; lmp
export PATH; lmp
(cd sub && make); sh run.sh
[[ -f a && $x == b ]]; sh run.sh
case $x in a) sh a.sh;; *) echo b;; esac
command -v lmp > where
grep '#' x; sh run.sh
gnuplot -e 'n = 3' plot.gp
sed -n '/^e/,/e$/{s/e/e/g;p}' in > out
sed '$d; 1~2!s|a|e|2; y/e/f/; /[/]/i\\ e' in > out
python3 -c 'import os.path; print(os.path.join("a", "b"))'
$(which python3) ../fit.py
export PATH=/opt/lammps/bin:$PATH; lmp
awk -v x=$WFCTL_PARAM_x 'BEGIN {print x * 2}'
awk -F: '{print $2}' $X
awk '{print $1}' < $X
cat data | awk '{print $1}'
cat data | sort
cat data | python3 ../fit.py
cat data | python3 ../fit.py -
python3 ../fit.py < $X
python3 -c 'print(1)'
python3 -c 'import json, sys; print(json.load(sys.stdin))' < data.json
python3 -c 'import re; print(re.compile("a"))'
python3 -c 'import numpy as np; print(np.e)'
octave --eval "x = $WFCTL_PARAM_x * 2"
perl -lane 'print $F[0]' $X
sh run.sh
sh $WFCTL_ROOT/run.sh $X
python3 "$WFCTL_ROOT/a b.py" $X
python3 ${WFCTL_INPUT_1} x
cd "$WFCTL_ROOT" && sh run.sh
bash -euo pipefail -c 'python3 ../a.py $X'
for i in 1 2 3; do python3 ../fit.py $i; done
find . -name '*.dat' -exec python3 ../fit.py {} \;
ls *.dat | xargs -n1 python3 ../fit.py
ls | xargs rm
seq 3 | parallel python3 ../fit.py {}
sed -e "s/T/$WFCTL_PARAM_T/" ../in.template > in.lammps
sed -i s/a/$X/ *.in
which python3
bash --version
module load python lammps
echo sh $X
x=$(python3 ../fit.py); echo $x > r
[[ -f a && $x == *.sh ]] || echo no
case $x in *.sh) echo a;; esac
test -s out.txt && grep -q done log
"""
_DOCUMENTS = (
    ("python3 - <<'END'\nimport math\nprint(math.pi * 2)\nEND\n", False),
    ("cat > in.x <<END\nrun $X\nsh $X\nEND\nlmp -in in.x\n", False),
    ("bash <<END\npython3 ../fit.py\nEND\n", False),
    ("bash <<'END'\nsh $X\nEND\n", True),
    ("python3 <<'END'\nexec(open('x').read())\nEND\n", True),
)


@pytest.mark.parametrize("launcher", _LAUNCHERS)
def test_script_without_an_explicit_path_is_unknown(launcher: str) -> None:
    """wfctl reports a command such as `python3 $X`, whose script it cannot name."""
    for launch, name in product([launcher], _HIDDEN_NAMES):
        found = find_unknown_files(f"cd data; {launch} {name} 300 > out.txt")
        assert found, f"{launch} {name}"
        assert found[0].reason
        assert launcher.rsplit(maxsplit=1)[-1] in found[0].words
    assert find_unknown_files(f"{launcher} ../x.sh $X *.dat > out.txt") == []


@pytest.mark.parametrize("text", _HIDDEN.strip().splitlines())
def test_command_that_hides_its_script_is_reported(text: str) -> None:
    """wfctl quotes the part of the command that runs an unknown script, and gives a reason."""
    assert [one for one in find_unknown_files(text) if one.words and one.reason], text


@pytest.mark.parametrize("form", _SHELL_FORMS)
def test_program_named_by_a_variable_is_unknown(form: str) -> None:
    """wfctl reports `$SHELL x` and similar programs, also after words such as `nice`."""
    texts = [f"{form}{one}" for one in _PROGRAM_WORDS]
    assert [text for text in texts if not find_unknown_files(text)] == []


@pytest.mark.parametrize("name", _VARIABLE_NAMES)
def test_command_that_sets_a_search_path_is_unknown(name: str) -> None:
    """wfctl reports a command that sets PATH or a similar variable in any way."""
    texts = [form.format(name) for form in _VARIABLE_FORMS]
    assert [text for text in texts if not find_unknown_files(text)] == []


@pytest.mark.parametrize("name", _PYTHON_NAMES)
def test_python_code_with_a_name_that_runs_code_is_unknown(name: str) -> None:
    """wfctl reports `python3 -c` code that uses a name such as `exec` in any way."""
    uses = [*(one.format(name) for one in _PYTHON_USES), "from x import *"]
    texts = [f"python3 -c {shlex.quote(use)}" for use in uses]
    assert [text for text in texts if not find_unknown_files(text)] == []


@pytest.mark.parametrize(
    ("text", "folder"),
    [("(cd a); bash x", ""), ("(cd a; bash x)", "a"), ("cd a; (cd b; ls); bash x", "a")],
)
def test_directory_change_in_parentheses_is_local(text: str, folder: str) -> None:
    """wfctl searches the script in the folder in which the shell would run it."""
    assert [one.folder for one in find_named_scripts(text) if one.name == "x"] == [folder]


@pytest.mark.parametrize("text", _HONEST.strip().splitlines())
def test_ordinary_command_is_not_reported(text: str) -> None:
    """wfctl accepts commands with variables and patterns in arguments and data."""
    assert find_unknown_files(text) == []


@pytest.mark.parametrize(("text", "is_unknown"), _DOCUMENTS)
def test_here_document_is_code_only_for_an_interpreter(text: str, is_unknown: bool) -> None:
    """wfctl checks a here-document of `bash` or `python3` as code, and ignores other documents."""
    assert bool(find_unknown_files(text)) == is_unknown


def test_finding_shows_both_sides_of_a_pipe() -> None:
    """For `cat x.sh | sh`, the finding quotes the whole pipe, not only `sh`."""
    (found,) = find_unknown_files("cat x.sh | sh")
    assert found.words == "cat x.sh | sh"


@pytest.mark.parametrize("text", ["sed -n -f x.sed data", "awk -fx.awk data", "sed -f x.sed < d"])
def test_program_file_of_sed_or_awk_is_a_script(text: str) -> None:
    """wfctl recognizes the file after the option `-f` as a script, with or without a space."""
    assert [one.name for one in find_named_scripts(text) if one.runs] == [
        re.findall(r"x\.\w+", text)[0]
    ]


def test_module_imported_on_the_command_line_is_named() -> None:
    """wfctl lists the modules that the code of `python3 -c` imports."""
    found = find_named_scripts("python3 -c 'from a.b import c; import d as e, json'")
    names = {one.name for one in found if one.is_module}
    assert {"a.b", "a.b.c", "d", "json"} <= names


def _commands_in_plans() -> Iterator[str]:
    for folder in (_REPOSITORY / "examples", _SHARED):
        for path in sorted(folder.rglob("*.toml")):
            yield from _commands_in(tomllib.loads(path.read_text()))
        for path in sorted(folder.rglob("workflow-state.json")):
            yield from _commands_in(json.loads(path.read_text()))
    value = re.compile(
        r"[\"']?\b(?:command|verify|task_verify)[\"']? *[=:] *(\"(?:[^\"\\\n]|\\.)*\")"
    )
    for path in [*(_REPOSITORY / "docs").rglob("*.md"), _REPOSITORY / "README.md"]:
        yield from map(ast.literal_eval, value.findall(path.read_text()))


def _commands_in(value: Any) -> Iterator[str]:
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (dict, list)):
            yield from _commands_in(one)
        elif name in ("command", "verify", "task_verify") and isinstance(one, str):
            yield one


def test_commands_of_examples_and_documentation_hide_no_script() -> None:
    """wfctl finds no unknown script in any command of the examples and the documentation."""
    commands = {*_commands_in_plans()}
    assert len(commands) > 20
    assert {text: found for text in commands if (found := find_unknown_files(text))} == {}


@pytest.mark.parametrize("piece", ["$(", "$(x ", "`", "<<a\n", "'", "sh -c '", "$((", "do'x", "{ "])
def test_long_command_is_parsed_quickly(piece: str) -> None:
    """A hostile command of 30,000 characters takes less than 10 seconds to analyse."""
    started = time.process_time()
    find_unknown_files(piece * (30_000 // len(piece)))
    find_unknown_files("awk '" + piece * (30_000 // len(piece)))
    assert time.process_time() - started < 10
