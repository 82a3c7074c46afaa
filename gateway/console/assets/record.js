// An incident record as text: the thirteen lines of an incident note in their order, then what else is known.

const when = (t) => (t ? new Date(t).toISOString().replace('T', ' ') : '');
const none = 'none recorded';

export function recordText(r, doc) {
  const from = Object.fromEntries((r.sources ?? []).filter((s) => s.seq?.length).map((s) => [s.line, `${s.from}, record ${s.seq.join(', ')}`]));
  const live = r.live?.alive;
  return [
    ['Observed at', when(r.observedAt)],
    ['Client process PID and command', process(r.clientProcess), from.clientProcess],
    ['MCP server PID and command', process(r.serverProcess), from.serverProcess],
    ['Parent PID and process group', [r.parentAndGroup && kin(r.parentAndGroup) + ' when it was first seen', live && kin(r.live) + ' now (live)'], from.parentAndGroup],
    ['Session identifier', r.sessionIdentifier, from.sessionIdentifier],
    ['Authorization state', r.authorizationState, from.authorizationState],
    ['Last successful action time', when(r.lastSuccessfulActionAt), from.lastSuccessfulActionAt],
    ['Last attempted action time', when(r.lastAttemptedActionAt), from.lastAttemptedActionAt],
    ['Action target and operation', target(r), from.targetAndOperation],
    ['Result or remote job identifier', r.resultOrJobId && [outcome(r.resultOrJobId), r.resultOrJobId.jobId && 'remote job ' + r.resultOrJobId.jobId], from.resultOrJobId],
    ['Revocation time and operator', revocation(r.revocationTimeAndOperator), from.revocationTimeAndOperator],
    ['Termination signal and exit result', end(r), from.terminationSignalAndResult],
    ['Follow-up required', r.followUpRequired],
    ['Client unavailable at', when(r.times.clientUnavailableAt)],
    ['Last action of the run started at', when(r.times.lastActionStartedAt)],
    ['Authority revoked at', when(r.times.authorityRevokedAt)],
    ['Execution epoch', r.executionEpoch],
    ['Launchers between client and server', (r.launchers ?? []).map((p) => process(p).filter(Boolean).join(', '))],
    ['Authorised by', (r.authorisedBy ?? []).map(authority)],
    ['Account', r.account],
    ['Calls', [r.leftOut ? `${r.leftOut} of the earlier ones are not listed` : '', ...(r.calls ?? []).map(callLine)]],
    ['Refused attempts', (r.denied ?? []).map(denial)],
    ['Unresolved', (r.unresolved ?? []).map((o) => [o.action + ': ' + o.why, o.lookUp && 'look it up: ' + o.lookUp, o.resolve && 'then: ' + o.resolve].filter(Boolean).join('; '))],
    ['Rotate', r.rotate, 'live, secondary'],
    ['Rows and log differ', r.differences],
    ['Could not be shown', r.unknown],
    ['Taken from', `the gateway's rows, up to record ${doc.upto} of the log; vault ${doc.vault}`],
  ].map(([label, value, source]) => lines(label, value, source)).join('\n');
}

function lines(label, value, source) {
  const all = [value].flat(2).filter(Boolean);
  const last = source && all.length ? `  [${source}]` : '';
  if (all.length === 0) return `${label}: ${none}`;
  if (all.length === 1) return `${label}: ${all[0]}${last}`;
  return `${label}:${last}\n` + all.map((x) => '  - ' + x).join('\n');
}

function process(p) {
  if (!p?.processId) return [];
  return [`${p.processId}  ${p.command}`, p.exeDigest && `program ${[p.exe, p.exeDigest].filter(Boolean).join(' ')}, identity ${p.identity}` + (p.weak?.length ? ` (${p.weak.join('; ')})` : '')];
}

const kin = (k) => `parent ${k.parentProcessId}, group ${k.processGroup}, session ${k.processSession}`;

function target(r) {
  const t = r.targetAndOperation;
  return t && [`${t.target}  ${t.operation}`, `${t.tool}, action ${t.action}, credential ${t.credential}` + (r.account ? `, account ${r.account}` : '')];
}

function outcome(x) {
  return [x.outcome + (x.reason && x.reason !== x.outcome ? ` (${x.reason})` : ''), x.status && `status ${x.status}`,
    x.exitStatus !== undefined && x.exitStatus !== null && `exit status ${x.exitStatus}`, x.resolution && `resolved by the operator: ${x.resolution}`].filter(Boolean).join(', ');
}

const revocation = (v) => v && [`${when(v.at)} by ${v.operator}, of ${v.of}`, v.left?.length && 'had left already: ' + v.left.join(', ')];

function end(r) {
  const e = r.terminationSignalAndResult;
  if (!e) return r.live ? (r.live.alive ? 'it lives' : 'no end is recorded, and it lives no more') : '';
  return e.signal ? `${e.signal} at ${when(e.at)}: ${e.result}` : `no signal by the gateway; ${e.result}, seen at ${when(e.at)}`;
}

const authority = (x) => `approval ${x.approval} by operator (${x.operator}) at ${when(x.issuedAt)}: grant ${x.grant} for ${x.toolScope.join(',')} with ${x.credentialScope.join(',')} until ${x.expiresWhen}`
  + (x.ended ? `; ended: ${x.ended}` : '') + ` [record ${x.seq}]`;

const callLine = (c) => `${c.class}  ${when(c.startedAt)}  ${c.action}  ${c.target} ${c.operation}: ${outcome(c)}` + (c.idempotencyKey ? `, idempotency key ${c.idempotencyKey}` : '')
  + ` [record ${[c.seq, c.resultSeq].filter(Boolean).join(', ')}]`;

const denial = (d) => `${when(d.at)}  ${d.reason}  ${d.target ?? ''} ${d.operation ?? ''}`.trim() + (d.count > 1 ? ` (${d.count} times)` : '') + (d.afterRevocation ? ', after the revocation' : '') + ` [record ${d.seq}]`;
