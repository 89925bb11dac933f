// Hooks of wfctl for opencode. They give the agent the briefing on the workflow at the start of each
// session and after each compaction.
import { spawnSync } from "node:child_process"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const hooks = join(dirname(fileURLToPath(import.meta.url)), "..", "wfctl", "hooks")

const run = (directory, words, input) =>
  spawnSync("sh", words, { cwd: directory, input: JSON.stringify(input), encoding: "utf8", timeout: 30000 })

const told = (directory, event) => {
  const done = run(directory, [join(hooks, "hook.sh"), event, "opencode"], { cwd: directory })
  try {
    return JSON.parse(done.stdout).hookSpecificOutput.additionalContext
  } catch {
    return ""
  }
}

// Briefing of each session. It is requested once, because a system prompt that changes between calls
// would make the model's prompt cache useless.
const briefs = new Map()

const brief = (directory, session) => {
  if (!briefs.has(session)) briefs.set(session, told(directory, "session-start"))
  return briefs.get(session)
}

export const Wfctl = async ({ directory }) => ({
  "experimental.chat.system.transform": async (input, output) => {
    const text = brief(directory, input.sessionID)
    if (text) output.system.push(text)
  },
  "experimental.session.compacting": async (input, output) => {
    run(directory, [join(hooks, "hook.sh"), "before-compact", "opencode"], { cwd: directory })
    briefs.delete(input.sessionID)
  },
})
