# Reads the JSON of a tool call and prints, a line each, the paths that the call would write:
#   w PATH       writes the file        d PATH       removes or moves away the file or folder
#   t PATH NAME  puts NAME at PATH, or into it where it is a folder
# A kind with a `*` behind it has a path whose pattern the shell would fill in. The first line names
# the folder of the session. Tabs lie between the words. guard.sh judges the paths.
#
# A command is split where the shell splits it; text in quotes and here-documents is text. What
# cannot be known before it runs (other variables, output of commands) is "\001" in a word.

{ input = input $0 "\n" }

END {
  read_json(input)
  dir = is["cwd"]
  if (dir == "") dir = ENVIRON["PWD"]
  print "s\t" dir
  if (is["tool_name"] != "" && is["tool_name"] !~ /^([Bb]ash|[Ss]hell|run_shell_command|[Ee]dit|[Mm]ulti[Ee]dit|[Ww]rite|NotebookEdit|write_file|replace|[Pp]atch|apply_patch)$/) exit
  if (is["folder"] != "") dir = joined(dir, is["folder"])
  if (is["file"] != "") told("w", is["file"])
  else if (is["command"] ~ /^[ \t\n]*\*\*\* Begin Patch/) patch(is["command"])
  else shell_text(is["command"])
}

# read_json TEXT: fills `is` with the fields that count; their names differ from client to client.
function read_json(text,    part, count, k, c, i, depth, inside, key, of, behind, held) {
  count = split(text, part, "\"")
  for (k = 1; k <= count; k++) {
    if (!inside) {
      for (i = 1; i <= length(part[k]); i++) {
        c = substr(part[k], i, 1)
        if (c == "{" || c == "[") { of[++depth] = key; behind = 0 }
        else if (c == "}" || c == "]") { depth--; behind = 0 }
        else if (c == ":") behind = 1
        else if (c == ",") behind = 0
      }
      inside = 1
      wanted = behind ? name_of(depth, of[depth], key) : "key"
      continue
    }
    if (wanted != "") add(part[k])
    if (match(part[k], /\\+$/) && RLENGTH % 2) { if (wanted != "") add("\""); continue }
    inside = 0
    held = added()
    if (!behind) key = held
    else if (wanted != "" && !(wanted in is)) is[wanted] = plain(held)
  }
}

function name_of(depth, parent, key) {
  if (depth == 1 && (key == "cwd" || key == "tool_name")) return key
  if (depth != 2 || parent != "tool_input") return ""
  if (key == "command" || key == "patchText") return "command"
  if (key == "file_path" || key == "filePath" || key == "notebook_path") return "file"
  if (key == "workdir" || key == "dir_path" || key == "directory") return "folder"
  return ""
}

# add TEXT, added: a text made of many parts. Each part appended to the whole would copy the whole.
function add(text) {
  recent = recent text
  if (length(recent) > 2000) { whole_ = whole_ recent; recent = "" }
}

function added(    found) {
  found = whole_ recent
  whole_ = recent = ""
  return found
}

# plain TEXT: a text of JSON without its escapes.
function plain(text,    part, count, k, c) {
  count = split(text, part, "\\")
  add(part[1])
  for (k = 2; k <= count; k++) {
    c = substr(part[k], 1, 1)
    if (part[k] == "") add("\\" part[++k])
    else if (c == "n" || c == "r") add("\n" substr(part[k], 2))
    else if (c == "t") add("\t" substr(part[k], 2))
    else if (c == "u") add(sign(substr(part[k], 2, 4)) substr(part[k], 6))
    else add(part[k])
  }
  return added()
}

function sign(hex,    value, i) {
  for (i = 1; i <= 4; i++) value = value * 16 + index("0123456789abcdef", tolower(substr(hex, i, 1))) - 1
  return value > 0 && value < 128 ? sprintf("%c", value) : "?"
}

function joined(folder, path) {
  if (path ~ /^\//) return path
  if (path ~ /^~(\/|$)/) return ENVIRON["HOME"] substr(path, 2)
  return folder "/" path
}

# told KIND PATH NAME: prints a path that can be known.
function told(kind, path, name,    whole) {
  if (path == "") return
  whole = joined(dir, path)
  if (whole ~ /[\001\n\t]/) return
  print kind "\t" whole (name == "" ? "" : "\t" name)
}

function shell_text(text,    kept, at) {
  if (++deep <= 20) {
    kept = S; at = P
    S = text; P = 1
    while (P <= length(S)) shell("")
    S = kept; P = at
  }
  deep--
}

# shell STOP: reads commands from S at P until the sign that stops them, and judges each.
# word: what was read of a word; open: there is one, if empty; wild: it has a pattern.
function shell(stop,    c, next_, word, open, wild, w, g, n, to, here, heres, eats, strip, k, first, dirs, parens, was) {
  n = heres = first = parens = 0
  while (P <= length(S)) {
    c = substr(S, P, 1)
    if (c == "\\") {
      if (substr(S, P + 1, 1) != "\n") { word = word substr(S, P + 1, 1); open = 1 }
      P += 2
      continue
    }
    if (c == "\047") {
      k = index(substr(S, P + 1), "\047")
      if (!k) k = length(S)
      word = word substr(S, P + 1, k - 1); open = 1
      P += k + 1
      continue
    }
    if (c == "\"") { word = word quoted(); open = 1; continue }
    if (c == "$" || (c == "`" && stop != "`")) { word = word value(); open = 1; continue }
    if (c == "#" && !open) {
      while (P <= length(S) && substr(S, P, 1) != "\n") P++
      continue
    }
    next_ = substr(S, P + 1, 1)
    if ((c == "<" || c == ">") && next_ == "(" && !open) {
      P += 2; was = dir; shell(")"); dir = was
      word = "\001"; open = 1
      continue
    }
    if (c == "(" && word ~ /^[A-Za-z_][A-Za-z_0-9]*\+?=$/) {
      while (P <= length(S) && substr(S, P, 1) != ")") P++
      P++; word = word "\001"
      continue
    }
    if (c !~ /[ \t\n;&|()<>`]/) {
      if (c ~ /[*?[]/) wild = 1
      word = word c; open = 1; P++
      continue
    }
    # A word ends here. Digits before a redirection are none.
    if (open && !((c == "<" || c == ">") && word ~ /^[0-9]+$/)) {
      if (to == "<<") { here[++heres] = word; eats[heres] = "" }
      else if (to == ">") told(wild ? "w*" : "w", word)
      else if (to == "") { w[++n] = word; g[n] = wild }
      to = ""
    }
    word = ""; open = wild = 0
    if (c == " " || c == "\t") { P++; continue }
    if (c == "<" || (c == ">" && !(w[1] == "[[" && n > 0)) || (c == "&" && next_ == ">")) {
      if (match(substr(S, P, 3), /^<<</)) { to = "<"; P += 3 }
      else if (match(substr(S, P, 3), /^<<-?/)) { to = "<<"; strip = RLENGTH == 3; P += RLENGTH }
      else if (match(substr(S, P, 3), /^(&>>?|>>|>\||<>)/)) { to = ">"; P += RLENGTH }
      else if (match(substr(S, P, 8), /^[<>]&[0-9-]+/)) P += RLENGTH
      else if (match(substr(S, P, 2), /^[<>]&?/)) { to = c; P += RLENGTH }
      continue
    }
    k = simple(w, g, n)
    while (first < heres) eats[++first] = k
    n = 0; to = ""
    P++
    if (c == "(") dirs[++parens] = dir
    else if (c == ")" && parens) dir = dirs[parens--]
    else if (c == stop) return
    else if (c == "\n" && heres) {
      for (k = 1; k <= heres; k++) here_text(here[k], strip, eats[k])
      heres = first = 0
    }
  }
  if (open && to == ">") told(wild ? "w*" : "w", word)
  else if (open && to == "") { w[++n] = word; g[n] = wild }
  simple(w, g, n)
}

# quoted: the text in double quotes at P.
function quoted(    c, text) {
  P++
  while (P <= length(S)) {
    c = substr(S, P, 1)
    if (c == "\"") { P++; return text }
    if (c == "\\") {
      c = substr(S, P + 1, 1)
      if (c != "\n") text = text (c ~ /[$`"\\]/ ? c : "\\" c)
      P += 2
    }
    else if (c == "$" || c == "`") text = text value()
    else { match(substr(S, P, RUN), /^[^"\\$`]+/); text = text substr(S, P, RLENGTH); P += RLENGTH }
  }
  return text
}

# value: what stands for the variable or the command at P; the command is judged.
function value(    was, name) {
  was = dir
  if (substr(S, P, 1) == "`") { P++; shell("`"); dir = was; return "\001" }
  if (substr(S, P, 3) == "$((") {
    name = index(substr(S, P), "))")
    P = name ? P + name + 1 : length(S) + 1
    return "\001"
  }
  if (substr(S, P, 2) == "$(") { P += 2; shell(")"); dir = was; return "\001" }
  if (substr(S, P, 2) == "$\047") { P++; return "" }
  if (match(substr(S, P, RUN), /^\$([A-Za-z_][A-Za-z_0-9]*|\{[A-Za-z_][A-Za-z_0-9]*\})/)) {
    name = substr(S, P + 1, RLENGTH - 1)
    gsub(/[{}]/, "", name)
    P += RLENGTH
    if (name in variable) return variable[name]
    if (name == "PWD") return dir
    return name ~ /^(HOME|CLAUDE_PROJECT_DIR|GEMINI_PROJECT_DIR)$/ && ENVIRON[name] != "" ? ENVIRON[name] : "\001"
  }
  if (match(substr(S, P, RUN), /^\$\{[^}]*\}/)) { P += RLENGTH; return "\001" }
  if (match(substr(S, P, 2), /^\$[0-9@*#?!$-]/)) { P += 2; return "\001" }
  P++
  return "$"
}

# here_text END STRIP KIND: takes a here-document, which is code where its command reads code.
function here_text(end, strip, kind,    lines, line, count, k) {
  count = split(substr(S, P), lines, "\n")
  for (k = 1; k <= count; k++) {
    P += length(lines[k]) + 1
    line = lines[k]
    if (strip) sub(/^\t+/, "", line)
    if (line == end) break
    if (kind != "") add(line "\n")
  }
  read_as(kind, added())
}

function read_as(kind, text) {
  if (kind == "shell") shell_text(text)
  else if (kind == "code") code(text)
  else if (kind == "patch") patch(text)
}

function patch(text,    line, count, k) {
  count = split(text, line, "\n")
  for (k = 1; k <= count; k++)
    if (sub(/^\*\*\* (Add File|Update File|Delete File|Move to): /, "", line[k])) told("w", line[k])
}

# simple WORDS WILD COUNT: judges one command; returns what a here-document is to it.
function simple(w, g, n,    i, program, a, p, count, option, k, last) {
  for (i = 1; i <= n; i++) {
    if (w[i] ~ /^[A-Za-z_][A-Za-z_0-9]*=/) { assign(w[i]); continue }
    if (w[i] ~ /^(if|then|else|elif|while|until|do|!|\{)$/) continue
    if (w[i] !~ /^(sudo|doas|env|nohup|time|command|exec|nice|stdbuf|setsid|xargs|timeout)$/) break
    program = w[i]
    while (w[i + 1] ~ /^-/ && i < n) i++
    if (program == "timeout") i++
  }
  if (i > n) return ""
  program = w[i]
  sub(/^.*\//, "", program)
  # The words behind it: those that are no options (a), and all of them (option).
  for (k = i + 1; k <= n; k++) {
    if (w[k] !~ /^-./ || last == "--") { a[++count] = w[k]; p[count] = g[k] ? "*" : "" }
    if (w[k] == "--") last = "--"
    option = option " " w[k]
  }
  if (program ~ /^(export|declare|local|readonly|typeset)$/) { for (k = 1; k <= count; k++) assign(a[k]) }
  else if (program == "cd" || program == "pushd") go(program, a[1])
  else if (program == "popd") { if (pushed) dir = folders[pushed--] }
  else if (program ~ /^(rm|unlink|shred|rmdir)$/) each("d", a, p, 1, count)
  else if (program ~ /^(tee|truncate|sponge)$/) each("w", a, p, 1, count)
  else if (program ~ /^(mv|cp|install|ln|rsync|scp)$/) put(program, a, p, 1, count, w, i, n)
  else if (program == "dd") { for (k = 1; k <= count; k++) if (sub(/^of=/, "", a[k])) told("w", a[k]) }
  else if (program ~ /^g?sed$/) { if (option ~ / (-[nErsuz]*i|--in-place)/) each("w", a, p, 1, count) }
  else if (program ~ /^(perl|ruby)$/) { if (option ~ / -[pnlaws0]*i/) each("w", a, p, 1, count) }
  else if (program ~ /^(curl|wget|sort)$/) behind("^(-o|--output|-O|--output-document)$", w, i, n)
  else if (program == "git") git(w, g, i + 1, n)
  else if (program == "sqlite3") sqlite(a, count, option)
  else if (program == "find") find(w, i + 1, n)
  else if (program == "eval") { sub(/^ /, "", option); shell_text(option) }
  else if (program == "apply_patch") { patch(a[1]); return "patch" }
  else if (program ~ /^(ba|da|z|k)?sh$/) return run("shell", "^-[a-z]*c$", w, i, n)
  else if (program ~ /^(python[0-9.]*|pypy3?|node|bun|deno)$/) return run("code", "^(-[a-zA-Z]*c|-e|-p|--eval|--print)$", w, i, n)
  return ""
}

function assign(text,    at) {
  at = index(text, "=")
  if (at) variable[substr(text, 1, at - 1)] = substr(text, at + 1)
}

function go(program, path) {
  if (program == "pushd") folders[++pushed] = dir
  dir = path == "-" ? "/\001" : joined(dir, path == "" ? "~" : path)
}

function each(kind, a, p, from, count,    k) {
  for (k = from; k <= count; k++) told(kind p[k], a[k])
}

# behind OPTION: the word behind an option is a file that is written.
function behind(option, w, i, n) {
  for (i++; i < n; i++) if (w[i] ~ option) told("w", w[i + 1])
}

# run KIND OPTION: the word behind an option is code; without it, what is read is.
function run(kind, option, w, i, n) {
  for (i++; i < n; i++) if (w[i] ~ option) { read_as(kind, w[i + 1]); return "" }
  return kind
}

# put PROGRAM FILES …: files that are put into another place, and leave theirs if moved.
function put(program, a, p, from, count, w, i, n,    k, to, name) {
  for (i++; i <= n; i++) {
    if (w[i] == "-t" || w[i] == "--target-directory") to = w[i + 1]
    else if (w[i] ~ /^--target-directory=/) to = substr(w[i], 20)
  }
  if (to == "" && count > from) to = a[count--]
  if (to == "" && program == "ln") to = "."
  if ((program == "rsync" || program == "scp") && to ~ /^[^\/]*:/) return
  for (k = from; k <= count; k++) {
    if (program == "mv") told("d" p[k], a[k])
    name = a[k]
    sub(/\/+$/, "", name)
    sub(/^.*\//, "", name)
    told("t", to, name == "" ? "." : name)
  }
}

function git(w, g, i, n,    was, what, option, a, p, count) {
  was = dir
  for (; w[i] ~ /^-/ && i <= n; i++)
    if (w[i] == "-C") dir = joined(dir, w[++i])
    else if (w[i] == "-c") i++
  what = w[i++]
  for (; i <= n; i++)
    if (w[i] ~ /^-/) option = option " " w[i] " "
    else { a[++count] = w[i]; p[count] = g[i] ? "*" : "" }
  if (what == "mv") put("mv", a, p, 1, count, a, count, count)
  else if (what == "rm" && option !~ / --cached /) each("d", a, p, 1, count)
  else if (what == "checkout" && option !~ / -[bB] /) each("d", a, p, 1, count)
  else if (what == "restore" && (option !~ / (-S|--staged) / || option ~ / (-W|--worktree) /)) each("d", a, p, 1, count)
  dir = was
}

function sqlite(a, count, option,    k, sql) {
  for (k = 2; k <= count; k++) sql = sql ";" tolower(a[k])
  if (option !~ / --?readonly/ && sql ~ /;[ \t\n]*(insert|update|delete|drop|alter|replace|create|vacuum|reindex|\.restore|\.import)/)
    told("w", a[1])
}

# find: files that it removes or gives to a command that does.
function find(w, i, n,    from, count, name, removes, k) {
  for (; i <= n && w[i] !~ /^[-(!]/; i++) from[++count] = w[i]
  if (!count) from[++count] = "."
  name = "x"
  for (; i <= n; i++) {
    if (w[i] ~ /^-i?name$/) name = w[i + 1]
    else if (w[i] == "-delete") removes = 1
    else if (w[i] ~ /^-(exec|ok)(dir)?$/ && w[i + 1] ~ /^(rm|mv|unlink|shred|truncate|sed)$/)
      removes = w[i + 1] != "sed" || w[i + 2] ~ /^-[nErsuz]*i/
  }
  for (k = 1; removes && k <= count; k++) told("d" (name ~ /[*?[]/ ? "*" : ""), from[k] "/" name)
}

# code TEXT: what Python or JavaScript writes by a name that stands there.
# Each text in quotes is taken out first and stands as "\002number\003", so that a text is no code.
function code(text,    out, c, q, k, at, rest) {
  split("", literal)
  split("", holds)
  k = 0
  for (at = 1; at <= length(text); ) {
    c = substr(text, at, 1)
    if (c == "#" || substr(text, at, 2) == "//") {
      while (at <= length(text) && substr(text, at, 1) != "\n") at++
      continue
    }
    if (match(substr(text, at, RUN), /^(\/|[^#\/"\047`]+)/)) { add(substr(text, at, RLENGTH)); at += RLENGTH; continue }
    q = substr(text, at, 3) == c c c ? c c c : c
    at += length(q)
    literal[++k] = ""
    while (at <= length(text) && substr(text, at, length(q)) != q) {
      if (substr(text, at, 1) == "\\") at++
      if (!match(substr(text, at, RUN), /^[^\\"\047`]+/)) RLENGTH = 1
      literal[k] = literal[k] substr(text, at, RLENGTH)
      at += RLENGTH
    }
    at += length(q)
    add("\002" k "\003")
  }
  rest = out = added()
  while (match(rest, /[A-Za-z_][A-Za-z_0-9]*[ ]*=[ ]*((pathlib\.)?Path\()?\002[0-9]+\003/)) {
    c = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    q = c
    sub(/[ ]*=.*/, "", q)
    holds[q] = literal[number(c)]
  }
  calls("w", out, "(^|[^A-Za-z_.]|io\\.)open\\([ ]*(Path\\()?" ARG "\\)?[ ]*,[ ]*(mode[ ]*=[ ]*)?\002[0-9]+\003", 1)
  calls("w", out, ARG "\\)?\\.open\\([ ]*(mode[ ]*=[ ]*)?\002[0-9]+\003", 1)
  calls("w", out, ARG "\\)?\\.(write_text|write_bytes|unlink)\\(", 0)
  calls("d", out, "(os\\.(remove|unlink|rename|replace|truncate)|shutil\\.(rmtree|move)|(writeFile|appendFile|unlink|rm|rename)(Sync)?)\\([ ]*" ARG, 0)
  calls("w", out, "(os\\.(rename|replace)|shutil\\.(move|copy|copy2|copyfile)|(rename|copyFile)(Sync)?)\\([^,()]*,[ ]*" ARG, 0)
}

# A text is copied in runs of so many signs: sign by sign, a long one would take a second.
BEGIN { RUN = 400 }
BEGIN { ARG = "(\002[0-9]+\003|[A-Za-z_][A-Za-z_0-9]*)" }

function number(text) {
  match(text, /\002[0-9]+/)
  return substr(text, RSTART + 1, RLENGTH - 1)
}

# calls KIND CODE PATTERN MODE: each place of the pattern; with MODE its last text has to write.
function calls(kind, text, pattern, has_mode,    found, mode) {
  while (match(text, pattern)) {
    found = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    if (has_mode) {
      mode = found
      sub(/^.*\002/, "", mode)
      if (literal[mode + 0] !~ /^[rwaxbt+]*[wax+]/) continue
      sub(/[ ]*(mode[ ]*=[ ]*)?\002[0-9]+\003$/, "", found)
    }
    sub(/\)?\.(open|write_text|write_bytes|unlink)\($/, "", found)
    sub(/[ ,)]*$/, "", found)
    if (found ~ /\002[0-9]+\003$/) { sub(/^.*\002/, "", found); told(kind, literal[found + 0]) }
    else if (match(found, /[A-Za-z_][A-Za-z_0-9]*$/) && substr(found, RSTART) in holds) told(kind, holds[substr(found, RSTART)])
  }
}
