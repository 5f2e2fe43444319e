import list from "./verbs.json";

// Verb is a command of the CLI. The list is generated from the command line itself.
export type Verb = { verb: string; help: string; args: { name: string; help: string; optional?: boolean; many?: boolean }[] };

export const verbs: Verb[] = list;

// Values are what somebody entered for the arguments of a verb, by their names.
export type Values = Record<string, string>;

// Way is how the page does what a verb does: by one request of the API, named by its id. path has its
// path parameters, by default the first arguments in their order; body and query have what else the
// arguments say. Without body, the page asks for the body of the request, if it has one.
export type Way = { op: string; args?: Verb["args"]; path?: (v: Values) => string[]; body?: (v: Values) => unknown; query?: (v: Values) => Record<string, string> };

const session = [{ name: "session", help: "ID of the session." }];
const halves = (id: string | undefined) => (id ?? "").split("/").slice(0, 2);
const log: Way = { op: "get-task-log", query: () => ({ offset: "-65536" }) };
const events: Way = { op: "list-events" };
const unlessEmpty = (name: string, text: string | undefined) => (text ? { [name]: text } : {});

// json returns what a text says as JSON, or the text itself.
function json(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export const ways: Record<string, Way> = {
  "agent delete": { op: "delete-agent" },
  "agent list": { op: "list-agents" },
  "agent show": { op: "get-agent" },
  "agent versions": { op: "list-agent-versions" },
  "approval list": { op: "list-approvals" },
  "approval show": { op: "get-approval" },
  "audit list": { op: "list-audit" },
  "budget ledger": { op: "list-budget-entries" },
  "budget remove": { op: "remove-budget" },
  "budget resume": { op: "resume-session" },
  "budget set": { op: "set-budget" },
  "budget show": { op: "list-budgets", args: [] },
  "call list": { op: "list-calls" },
  "call resolve": { op: "resolve-call", path: (v) => halves(v.id) },
  "call show": { op: "get-call", path: (v) => halves(v.call) },
  cancel: { op: "cancel-task" },
  "connection delete": { op: "delete-connection" },
  "connection list": { op: "list-connections" },
  "connection test": { op: "test-connection" },
  "cost report": { op: "get-costs" },
  "event list": events,
  "event tail": events,
  "file cat": { op: "get-file" },
  "file get": { op: "get-file" },
  "file grep": { op: "grep-files", query: (v) => ({ pattern: v.pattern ?? "", ...unlessEmpty("path", v.path) }) },
  "file ls": { op: "list-files", query: (v) => unlessEmpty("path", v.path) },
  "file mv": { op: "move-file", body: (v) => ({ from: v.from, to: v.to }) },
  "file rm": { op: "delete-file" },
  "harness delete": { op: "delete-harness" },
  "harness list": { op: "list-harnesses" },
  "harness show": { op: "get-harness" },
  "harness versions": { op: "list-harness-versions" },
  "image list": { op: "list-images" },
  "image rm": { op: "delete-image" },
  log,
  "model default": { op: "set-default-model", args: [{ name: "name", help: "The model, as PROVIDER/MODEL." }], path: () => [], body: (v) => ({ name: v.name }) },
  "model list": { op: "list-models" },
  "payment list": { op: "list-payments" },
  "payment resolve": { op: "resolve-payment" },
  "payment show": { op: "get-payment" },
  "provider delete": { op: "delete-provider" },
  "provider list": { op: "list-providers" },
  "provider show": { op: "get-provider" },
  ps: { op: "get-work" },
  resolve: { op: "resolve-task" },
  "resource list": { op: "list-resources" },
  "resource release": { op: "release-resource" },
  "resource show": { op: "get-resource" },
  "schedule backfill": { op: "backfill-schedule" },
  "schedule create": { op: "create-schedule", args: [] },
  "schedule delete": { op: "delete-schedule" },
  "schedule explain": { op: "list-fires" },
  "schedule list": { op: "list-schedules" },
  "schedule next": { op: "next-fires", args: [{ name: "schedule", help: "ID of the schedule." }] },
  "schedule pause": { op: "pause-schedule" },
  "schedule resume": { op: "resume-schedule" },
  "schedule show": { op: "get-schedule" },
  "schedule trigger": { op: "trigger-schedule" },
  "secret delete": { op: "delete-secret" },
  "secret list": { op: "list-secrets" },
  "session delete": { op: "delete-session" },
  "session fork": { op: "fork-session" },
  "session interrupt": { op: "interrupt-session" },
  "session label": { op: "update-session", args: session },
  "session list": { op: "list-sessions" },
  "session move": { op: "move-session" },
  "session new": { op: "create-session" },
  "session pause": { op: "pause-session" },
  "session rename": { op: "update-session", body: (v) => ({ title: v.title }) },
  "session resume": { op: "resume-session" },
  "session send": { op: "send-message", body: (v) => ({ content: [{ type: "text", text: v.text }] }) },
  "session show": { op: "get-session" },
  "session tail": events,
  "sql dump": { op: "dump-database" },
  "sql ls": { op: "list-databases" },
  "sql query": { op: "query-database", args: [...session, { name: "database", help: "Name of the database." }, { name: "sql", help: "The statement." }], body: (v) => ({ sql: v.sql }) },
  "task attach": log,
  attach: log,
  "task cancel": { op: "cancel-task" },
  "task delivery": { op: "set-task-delivery" },
  "task detach": { op: "detach-call", path: (v) => halves(v.call) },
  "task drain": { op: "drain-tasks", args: session },
  "task list": { op: "list-tasks" },
  "task log": log,
  "task process": { op: "get-task-process" },
  "task message": { op: "send-task-message", body: (v) => ({ text: v.text }) },
  "task resolve": { op: "resolve-task" },
  "task show": { op: "get-task" },
  "task watch": { op: "get-task" },
  "token create": { op: "create-token", args: [] },
  "token list": { op: "list-tokens" },
  "token revoke": { op: "revoke-token" },
  "tool call": { op: "call-tool", body: (v) => ({ args: json(v.arguments || "{}") }) },
  "tool list": { op: "list-tools" },
  "tool show": { op: "get-tool" },
  "value delete": { op: "delete-value" },
  "value get": { op: "get-value" },
  "value list": { op: "list-values" },
  "value set": { op: "set-value", body: (v) => ({ value: json(v.text ?? "") }) },
  "webhook change": { op: "update-webhook" },
  "webhook create": { op: "create-webhook", args: [] },
  "webhook delete": { op: "delete-webhook" },
  "webhook deliveries": { op: "list-webhook-deliveries" },
  "webhook list": { op: "list-webhooks" },
  "webhook redeliver": { op: "redeliver-webhook" },
  "webhook show": { op: "get-webhook" },
  "webhook test": { op: "test-webhook" },
};

// Why a verb is done on a terminal.
const atTerminal = {
  files: "It reads or writes files of the machine it is called on.",
  process: "It is about a process or a data directory, on the machine of the server.",
  asks: "Its page shows the exact arguments first, so that nobody approves unseen.",
  secret: "It reads a secret, which is not typed into this line.",
  words: "It is about the command line itself.",
  long: "It runs until it is stopped.",
};

// terminal has the verbs without a way, with the reason, and the page that does the same.
export const terminal: Record<string, { why: string; page?: string }> = {
  "admin backup": { why: atTerminal.process },
  "admin gc": { why: atTerminal.process },
  "admin migrate": { why: atTerminal.process },
  "admin restore": { why: atTerminal.process },
  "admin rotate-key": { why: atTerminal.process },
  "admin scheduler": { why: atTerminal.process },
  "admin verify": { why: atTerminal.process },
  "agent apply": { why: atTerminal.files },
  api: { why: "Each command here shows its line of this kind." },
  "approval approve": { why: atTerminal.asks, page: "/approvals" },
  "approval deny": { why: atTerminal.asks, page: "/approvals" },
  approve: { why: atTerminal.asks, page: "/approvals" },
  chaos: { why: atTerminal.long },
  completion: { why: atTerminal.words },
  "config check": { why: atTerminal.files },
  "config list": { why: atTerminal.files },
  "config schema": { why: atTerminal.words },
  "connection add": { why: atTerminal.secret, page: "/settings" },
  "demo agents": { why: atTerminal.process },
  "demo approvals": { why: atTerminal.process },
  "demo crash": { why: atTerminal.process },
  deny: { why: atTerminal.asks, page: "/approvals" },
  doctor: { why: atTerminal.process },
  "egress allow": { why: atTerminal.files },
  "egress deny": { why: atTerminal.files },
  "egress list": { why: atTerminal.files },
  "egress test": { why: atTerminal.files },
  "event replay": { why: "It computes the state on the machine it is called on.", page: "/events" },
  "event show": { why: "It computes the state on the machine it is called on.", page: "/events" },
  "file put": { why: atTerminal.files },
  "harness apply": { why: atTerminal.files },
  help: { why: atTerminal.words },
  "image get": { why: atTerminal.files },
  "image put": { why: atTerminal.files },
  "mcp config": { why: atTerminal.files, page: "/settings" },
  "mcp proxy": { why: atTerminal.long },
  "mcp serve": { why: atTerminal.long },
  "mcp test": { why: atTerminal.process },
  "provider set": { why: atTerminal.secret, page: "/settings" },
  "provider test": { why: "It reads which model to ask from its flags.", page: "/settings" },
  run: { why: "A session has its own page, where messages are sent.", page: "/sessions" },
  "secret rotate": { why: atTerminal.secret },
  "secret set": { why: atTerminal.secret },
  serve: { why: atTerminal.long },
  dev: { why: atTerminal.long },
  "session export": { why: atTerminal.files },
  "session import": { why: atTerminal.files },
  stop: { why: atTerminal.process },
  "task input": { why: "The page of the task shows its question.", page: "/tasks" },
  "tool init": { why: atTerminal.files },
  ui: { why: atTerminal.process },
  version: { why: atTerminal.words },
};

// argsOf returns what the page asks for.
export function argsOf(verb: Verb): Verb["args"] {
  return ways[verb.verb]?.args ?? verb.args;
}
