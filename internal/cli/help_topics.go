package cli

const formatting = `
Data goes to stdout, messages go to stderr. Commands that list or show take these flags:

-o table         readable table (default)
-o wide          table with more columns, in which nothing is shortened
-o json          indented JSON, as in the API; a list is an array
-o jsonl         one JSON object per line
-o yaml          YAML
-o name          ids only, one per line
-o none          nothing; check the exit code
--json a,b       only these fields, in this order
--jq EXPR        result of a jq expression on the JSON
--template TEXT  result of a Go template on the JSON; it can call json

perdure task list --json id,state -o jsonl
perdure session list --jq '.[] | select(.open_tasks > 0) | .id'
perdure session show last --template '{{.state}}'

Lists have the newest first. --limit N and --since WHEN (30m, 7d, a day or a time) shorten
lists of things with a time.

Later versions only add fields to the JSON. Times are RFC 3339 in JSON, and relative in tables.
On a terminal, control characters in data are removed unless --raw is given.
`

const effects = `
Every tool call has an effect class. It decides what crash recovery does when nobody
knows whether the call took effect:

pure          changes nothing: the call is run again
idempotent    can safely run twice: the call is run again with the same key
at_most_once  must not happen twice: the call is not run again

A call is claimed before it runs and settled afterwards. If a process dies in
between, the outcome of an at_most_once call is unknown: find out what happened,
then record it once.

perdure ps                        lists unknown outcomes
perdure call list SESSION         lists the calls of a session
perdure resolve ID --happened     or --did-not-happen, or --run-again (tasks only)

A fork of a session repeats no effect: perdure session fork --help.
`

const recovery = `
Acknowledged work is durable. After any crash, the next serve or run on the same
data directory continues all unfinished work:

a turn              continues from its last step
a call              is recovered by its effect class: perdure help effects
a command of bash   keeps running, and is adopted with its output
a result            is delivered once
a schedule          fires what it missed, by its rule for missed fires

perdure doctor              checks the installation and suggests fixes
perdure doctor --processes  lists commands that still run, with their owners
perdure ps                  shows what needs your attention
perdure admin verify        reads all data and reports errors
perdure admin backup DIR    copies the data directory while it is in use

If a server goes away, commands that follow a log or a journal wait for it and
continue where they were. A write without an answer is retried and takes effect once.
`

const configuration = `
Values that are not on the command line come from the environment, then from the
project file, then from the user file:

PROJECT/.perdure.yaml              in this folder or a parent, up to the folder with .git
$XDG_CONFIG_HOME/perdure/config.yaml   or ~/.config/perdure/config.yaml

color: never
run:
  model: openai:NAME
  ask: [bash]
profiles:
  work: {server: "https://perdure.example.com"}
profile: work                      the default; --profile and PERDURE_PROFILE override it

If settings name different stores, the command stops before it does anything. A
server, database and data directory that are given together must be one store.
A server on the command line overrides a directory from a variable or a file; a
server from a variable overrides files.

A project file cannot set where keys and data are sent, nor what commands may do on
this machine. Do not put secrets into these files.

perdure config list --show-origin  lists all settings and their origins
perdure config check               reports errors
perdure config schema              prints all settings that exist
`
