"""The shapes of events' data, written by `python -m tests.golden.schemas_on_file`."""

SHAPES = r"""
Change path:text value:any=null
ChangedFile kind:(changed,missing) path:text sha256:text?=null size:whole?=null
Check detail:text="" findings:[text]=[] name:text passed:flag
CodeVersion commit:text dirty:flag files:[text]=[]
FailedTask because:text="" exit_code:whole?=null key:text
FileDigest path:text sha256:text size:whole
FilesOfAttempt inputs:[FileDigest] scripts:{text} submission_sha256:text
JobEnvironment names:[text] python3:text?=null sha256:text values:{text}={}
LateFile path:text seconds:whole
LeftFile at:text?=null link:text?=null path:text sha256:text size:whole
MeasuredNumber error:real?=null name:words path:text pointer:text task:text?=null unit:text?=null
  value:real
RestsOn approvals:{text}={} attempt:text?=null definition:text round:whole?=null tasks:text?=null
UnknownField field:text layout:{[text]}={} removed:flag=false stage:stage?=null value:any=null
amendment.approved amendment:decision approved_by:text="user" invalidated_stages:[stage]=[]
  kept:{stage>whole}={} proof:{any}={} scripts:{text}={} version:whole?=null
amendment.proposed also:[stage]=[] amendment:amendment?=null changes:{any}={} description:words
  from_round:whole?=null insert:{any}?=null
  kind:(parameter_change,criteria_change,stage_insert,stage_skip,stage_rerun,plan_change)
  place:whole?=null reason:words?=null rewire:[stage]|flag=false rewired:{stage>{any}}={}
  stage:stage?=null
amendment.rejected amendment:decision reason:text?=null
attempt.left attempt:attempt exchanged:[text]=[] files:[LeftFile] host:text?=null more:whole=0
  record:FileDigest?=null stage:stage
attempt.observed action:words attempt:attempt evidence:{any} reason:text row:whole stage:stage
  verdict:words waiting:text?=null
attempt.relaunched attempt:attempt mode:(sync,tmux,setsid) reason:text session:text?=null
  stage:stage
attempt.started attempt:attempt?=null beside:{text}?=null boot_id:text?=null carried:[FileDigest]=[]
  carried_from:attempt?=null code:CodeVersion?=null diagnostic:flag=false
  environment:JobEnvironment?=null host:text?=null inputs:[FileDigest]=[] mode:(sync,tmux,setsid)
  program:FileDigest?=null programs:[FileDigest]=[] recovers:attempt?=null requested:{real}={}
  root:text scripts:{text}={} session:text?=null stage:stage submission:text submission_sha256:text
  taken_over:flag=false tasks:tasks?=null variables:{text}={} variables_key:text?=null work_dir:text
  wrapper:text
attempt.stopped attempt:attempt ended:[text] reason:words stage:stage
audit.agreed approved_by:text="user" entry:words kind:words proof:{any}={} reason:words
  subject:words text:words
checkpoint.recorded checkpoint:any stage:stage
claim.overruled approved_by:text="user" attempt:attempt claim:(computed,over) proof:{any}={}
  reason:words stage:stage verdict:words
cost.charged stage:stage weight:weight work_class:(sync,async,error_cycle,diagnostic)
drift.adopted detected:whole?=null file:text left:[text]=[] rest:[text]=[] unknown:[UnknownField]=[]
drift.detected base:whole=0 differences:[{any}]=[] file:text found_sha256:text?=null
  kept_as:drift?=null kind:(changed,missing,truncated,unreadable)="changed" more:whole=0
drift.reverted approved_by:text?=null detected:whole?=null file:text kept_as:drift?=null
  proof:{any}={}
files.recorded attempts:{stage>FilesOfAttempt}={} scripts:{text}={}
leftovers.freed attempt:attempt files:[text]=[] more:whole=0 paths:[text] size:whole stage:stage
line.imported commit:text?=null count:whole=1 encoding:(utf-8,base64)="utf-8" ended:flag=true
  kept:flag=true line:whole raw:[text] retry:whole?=null session:whole?=null stage:stage?=null
  statuses:[text]=[] text:text typed_at:text?=null workflow_completed:flag=false
loop.stopped loop:machine reason:words
machine.approved approval:words approved_by:text="user" choice:words?=null fields:{any}?=null
  files:{text}?=null phase:text?=null proof:{any}={}
machine.cancelled anew:flag=false earlier:{text}={} left:text?=null reason:words?=null
machine.checkpointed next:[words]=[] phase:text?=null summary:words
machine.created consent:(terminal,signature,trust)="terminal" definition:{any}
  definition_layout:{[text]}={} document:{any}={} earlier:{text}={} layout:{[text]}={}
  machine:machine own:flag=false proposed:flag=false root:{any}={} signers:[text]=[]
machine.imported consent:(terminal,signature,trust)="terminal" counts:{whole}={} created:text?=null
  definition:{any} definition_layout:{[text]}={} document:{any}={} earlier:{text}={}
  findings:[{any}]=[] given:[{any}]=[] layout:{[text]}={} machine:machine own:flag=false phase:text
  proposed:flag=false root:{any}={} signers:[text]=[] status:text?=null task_earlier:{{text}}={}
  visits:[{any}]=[]
machine.limited approved_by:text?=null before:whole?=null loop:words proof:{any}={} reason:words
  to:rounds
machine.recorded data:{any}={} name:words phase:text?=null
machine.task_changed changes:{any} earlier:{text}={} reason:words?=null task:words
machine.task_claimed before:text?=null by:text?=null handle:text?=null renew:flag=false
  seconds:seconds=1800 task:words until:text?=null
machine.task_released by:text?=null despite:flag=false reason:words?=null task:words
machine.transitioned asked:text?=null count:whole?=null earlier:{text}={} files:{[text]}={}
  left:text?=null limit:whole?=null loop:text?=null reason:words?=null resets:[text]=[]
  to:text?=null
machine.updated changes:[Change] digests:{text}={} layout:{[text]}={} removed:[text]=[]
machine.withdrawn approval:words approved_by:text="user" phase:text?=null proof:{any}={}
note.logged after:whole?=null kind:(note,external)="note" raw:text?=null stage:stage?=null
  text:words
outputs.archived amendment:amendment?=null kept_as:kept stage:stage
outputs.recorded found:flag=false outputs:[text] stage:stage
outputs.reused attempt:attempt inputs:[FileDigest]=[] outputs:[FileDigest] stage:stage
results.adopted approved_by:text?=null deleted:[FileDigest]=[] metrics:[MeasuredNumber]=[]
  outputs:[FileDigest] proof:{any}={} reason:words rests_on:RestsOn?=null stage:stage
results.changed files:[ChangedFile] stage:stage
round.begun by:words data:{text}={} loop:machine points:[{any}] reason:words?=null round:round?=null
  source:text?=null
session.ended next:text?=null reason:(budget_exhausted,completed,blocked,waiting)
session.started driven:flag=false environment:{any}?=null number:whole?=null report:report?=null
stage.blocked dependency:stage dependency_status:(failed,skipped) stage:stage
stage.completed attempt:attempt?=null check_files:{text}={} checks:[Check]=[] detail:text?=null
  evidence:words?=null judged_by:text?=null metrics:[MeasuredNumber]=[] outputs:[FileDigest]=[]
  rests_on:RestsOn?=null stage:stage
stage.computed attempt:attempt detail:text?=null exit_code:whole facts:{any}={} resources:{real}={}
  stage:stage
stage.failed attempt:attempt?=null because:text?=null
  category:(input,resource,scheduler,missing_output,software,unknown)?=null check_files:{text}={}
  checks:[Check]=[] error:words exit_code:whole?=null metrics:[MeasuredNumber]=[] output:text?=null
  outputs:[FileDigest]=[] resources:{real}={} short_of:(memory,time)?=null stage:stage
  stop:flag=false superseded_by:amendment?=null
stage.invalidated amendment:amendment reason:text?=null stage:stage
stage.launched again:flag=false attempt:attempt boot_id:text?=null dpdispatcher_version:text?=null
  host:text?=null job_boot_id:text?=null job_host:text?=null job_ids:[text]=[]
  mode:(sync,tmux,setsid) session:text?=null stage:stage submission_hash:text?=null
  work_dir:text?=null
stage.prepared detail:text?=null stage:stage
stage.readied amendment:amendment?=null grown:(memory_gb,time_limit,nodes,cores)?=null
  reason:text="dependencies\u0020met" reset:flag=false stage:stage
stage.retried approved_by:text?=null failed_only:flag=false fix:words proof:{any}={}
  regenerate:flag=false retry:retry?=null stage:stage
stage.skipped amendment:amendment reason:text?=null stage:stage
state.imported document:{any} layout:{[text]}={} source:{any}={} spelling:{number}={}
tasks.observed attempt:attempt done:ranges="" edited:[text]=[] ended:tasks=0 failed:ranges=""
  failures:[FailedTask]=[] journals:[FileDigest]=[] late:[LateFile]=[] lost:ranges="" points:text
  record:FileDigest?=null running:ranges="" stage:stage total:tasks
workflow.completed report:report?=null stages:whole
workflow.created consent:(terminal,signature,trust)="terminal" document:{any} layout:{[text]}={}
  proposed:flag=false purpose:text?=null root:{any}={} signers:[text]=[]
workflow.imported consent:(terminal,signature,trust)="terminal" document:{any} events:whole=0
  findings:[{any}]=[] layout:{[text]}={} proposed:flag=false root:{any}={} signers:[text]=[]
  source:{any}={}
workflow.reopened reason:words
"""
