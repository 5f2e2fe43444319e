package cli

const formatting = `
Data goes to stdout, talk to stderr. Lists and shows take these:

-o table         for people; the default
-o json          the JSON of the API, indented; a list is an array
-o jsonl         a line each
-o yaml          the same as YAML
-o name          the ids, a line each
-o none          nothing; the exit code says it
--json a,b       only these fields, in this order
--jq EXPR        what an expression of jq makes of the JSON
--template TEXT  what a Go template makes of it; json is a function in it

perdure task list --json id,state -o jsonl
perdure session list --jq '.[] | select(.open_tasks > 0) | .id'
perdure session show last --template '{{.state}}'

JSON only gains fields. Times are RFC 3339 in it, and relative in tables.
On a terminal, control characters of the data are left out, unless --raw is given.
`

const effects = `
Every call of a tool has an effect class, which says what may be done when nobody
knows whether it happened:

pure          it changes nothing: it is run again
idempotent    twice does what once does: it is run again, under the same key
at_most_once  what it does may not be undone: it is not run again by itself

A call is claimed before it runs and settled after it. What was claimed and not
settled when a process died is, for at_most_once, unknown: a person finds out, and
says it once.

perdure ps                        shows what is unknown
perdure call list SESSION         the ledger, call by call
perdure resolve ID --happened     or --did-not-happen, or --run-again (tasks only)

In a fork of a session no effect is repeated: perdure session fork --help.
`

const recovery = `
What a command acknowledged is durable. Whatever dies, the next serve or run on the
same data directory takes up all that is unfinished:

a turn              goes on from its last step
a call              by its class: perdure help effects
a command of bash   outlives us, and is adopted with its output
a result            comes home once
a schedule          fires what it missed, as it was told to

perdure doctor              what is fine here, and a fix for what is not
perdure doctor --processes  commands that still run, and whose they are
perdure ps                  what needs you
perdure admin verify        reads everything, and says what is wrong with it
perdure admin backup DIR    copies the data directory while others work in it

A server that is away is waited for: what follows a log or a journal goes on where it
stood. A write that got no answer is sent again under the same key, and done once.
`

const configuration = `
What is not typed is read from the environment, else from the file of the project,
else from the file of the user:

PROJECT/.perdure.yaml              in this folder, or above it up to the one with .git
$XDG_CONFIG_HOME/perdure/config.yaml   else ~/.config/perdure/config.yaml

color: never
run:
  model: openai:NAME
  ask: [bash]
profiles:
  work: {server: "https://perdure.example.com"}
profile: work                      which one counts; else --profile or PERDURE_PROFILE

What names a place is obeyed, or the command refuses before it does anything: a
server, a database and a data directory that are named together are of one store.
A server goes over a place that is named farther away: typed, over the directory of
a variable and over files.

A project's file may not say where keys and data go, nor what may be done on this
machine. No secret belongs into these files.

perdure config list --show-origin  what is set, and where
perdure config check               what is wrong
perdure config schema              what may be set
`
