package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// sample is a command line, and the kind of its JSON.
type sample struct {
	line   string // after the program's name, and before -o json
	is     string // API operation whose response has the same schema; empty: none
	stream bool   // lines of JSON, until it is stopped
	codes  []int  // possible exit codes besides 0
}

// command is the beginning of the line: a noun and its verb, or a shortcut.
func (s sample) command() string {
	words := strings.Fields(s.line)
	switch words[0] {
	case "run", "ps", "log", "attach", "cancel", "resolve", "approve", "deny", "api", "serve", "stop", "ui", "dev", "doctor", "version", "help", "completion", "chaos":
		return words[0]
	}
	return words[0] + " " + words[1]
}

// tells reports whether its command only reads.
func (s sample) tells() bool {
	words := strings.Fields(s.command())
	return slices.Contains([]string{"list", "show", "ps", "report", "ledger", "check", "schema", "next", "explain", "ls", "deliveries", "get", "replay", "version"}, words[len(words)-1])
}

// otherCommands are those that print no JSON, each with a reason.
func otherCommands() map[string]string {
	return map[string]string{
		"log": "the bytes of a log", "task log": "likewise", "attach": "likewise", "task attach": "likewise",
		"file cat": "the bytes of a file", "file get": "writes a file of this machine, and prints nothing", "image get": "likewise", "sql dump": "SQL text",
		"session export": "its own lines, of JSON whatever was asked for", "tool call": "what the tool answers, which is JSON",
		"serve": "a URL, until it ends", "ui": "a link", "dev": "a link, until it ends", "stop": "it ends the server of the samples; its script reads its JSON", "help": "text", "completion": "a script", "admin rotate-key": "words only",
		"mcp serve": "stdout belongs to the protocol", "mcp proxy": "likewise", "mcp config": "a block to paste", "mcp test": "words only",
		"tool init":  "writes into the folder where it runs; its script reads its JSON",
		"demo crash": "minutes; its scripts read its JSON", "chaos": "likewise", "demo agents": "likewise", "demo approvals": "likewise",
		"task input": "nothing here asks; TestTaskInput has it",
	}
}

// samples are run in this order, with the server of newDesk.
func samples() []sample { return slices.Concat(workSamples(), keptSamples()) }

// workSamples are about sessions and their work.
func workSamples() []sample {
	return []sample{
		{line: "session new --model {model} --title another", is: "create-session"},
		{line: "session list", is: "list-sessions"},
		{line: "session show {kept}", is: "get-session"},
		{line: "session send {kept} hello --wait", stream: true},
		{line: "session tail {kept} --after 0", stream: true},
		{line: "session interrupt {kept}"},
		{line: "session pause {kept}"},
		{line: "session resume {kept}"},
		{line: "session label {kept} team=red", is: "update-session"},
		{line: "session rename {kept} kept", is: "update-session"},
		{line: "session fork {kept}", is: "fork-session"},
		{line: "session move {kept} --yes", is: "move-session"},
		{line: "event list {kept}"},
		{line: "event tail {kept} --after 0", stream: true},
		{line: "event show {kept} 1"},
		{line: "event replay {kept}"},
		{line: "run --session {kept} hello", stream: true},
		{line: "ps"},
		{line: "task list", is: "list-tasks"},
		{line: "task show Build", is: "get-task"},
		{line: "task process Build", is: "get-task-process"},
		{line: "task watch Build", stream: true},
		{line: "task message Build hello"},
		{line: "task delivery Build --delivery manual", is: "set-task-delivery"},
		{line: "task detach {call}", is: "detach-call"},
		{line: "task cancel Build --yes"},
		{line: "cancel Other --yes"},
		{line: "task drain --session {build}", is: "drain-tasks"},
		{line: "task resolve Doubt --happened"},
		{line: "call list {doubt}", is: "list-calls"},
		{line: "call show {doubted}", is: "get-call"},
		{line: "call resolve {doubted} --happened"},
		{line: "resolve Again --happened"},
		{line: "approval list", is: "list-approvals"},
		{line: "approval show {first}", is: "get-approval"},
		{line: "approval approve {first} --yes", is: "approve"},
		{line: "approve {second} --yes", is: "approve"},
		{line: "approval deny {third}", is: "deny"},
		{line: "deny {fourth}", is: "deny"},
		{line: "schedule create @hourly --session {kept} --message hello --title hourly", is: "create-schedule"},
		{line: "schedule list", is: "list-schedules"},
		{line: "schedule show daily", is: "get-schedule"},
		{line: "schedule next daily", is: "next-fires"},
		{line: "schedule explain daily"},
		{line: "schedule trigger hourly", is: "trigger-schedule"},
		{line: "schedule pause hourly", is: "pause-schedule"},
		{line: "schedule resume hourly", is: "resume-schedule"},
		{line: "schedule backfill hourly --from 2026-01-01T00:00:00Z --to 2026-01-01T02:00:00Z --yes", is: "backfill-schedule"},
		{line: "schedule delete hourly --yes"},
		{line: "budget set agent helper --limit 3", is: "set-budget"},
		{line: "budget show", is: "list-budgets"},
		{line: "budget ledger {budget}", is: "list-budget-entries"},
		{line: "budget resume spent"},
		{line: "budget remove {budget} --yes"},
		{line: "cost report", is: "get-costs"},
		{line: "payment list", is: "list-payments"},
		{line: "payment show pay_5ada", is: "get-payment"},
		{line: "payment resolve pay_5ada --did-not-happen", is: "resolve-payment"},
	}
}

// keptSamples are about other stored objects, and about the server.
func keptSamples() []sample {
	return []sample{
		{line: "webhook create {hook}other", is: "create-webhook"},
		{line: "webhook list", is: "list-webhooks"},
		{line: "webhook show {hook}", is: "get-webhook"},
		{line: "webhook change {hook} --rotate", is: "rotate-webhook"},
		{line: "webhook test {hook}", is: "test-webhook"},
		{line: "webhook deliveries {hook}", is: "list-webhook-deliveries"},
		{line: "webhook redeliver {hook} {delivery}", is: "redeliver-webhook"},
		{line: "webhook delete {hook} --yes"},
		{line: "file ls {kept}", is: "list-files"},
		{line: "file put {kept} {dir}/hello.txt /other.txt", is: "write-file"},
		{line: "file mv {kept} /other.txt /moved.txt", is: "move-file"},
		{line: "file rm {kept} /moved.txt --yes"},
		{line: "file grep {kept} hello", is: "grep-files"},
		{line: "image put {kept} {dir}/other.gif", is: "put-image"},
		{line: "image list {kept}", is: "list-images"},
		{line: "image rm {kept} other.gif --yes"},
		{line: "sql ls {tables}", is: "list-databases"},
		{line: "sql query {tables} @{dir}/query.sql", is: "query-database"},
		{line: "value set {kept} size 3", is: "set-value"},
		{line: "value get {kept} colour", is: "get-value"},
		{line: "value list {kept}", is: "list-values"},
		{line: "value delete {kept} size --yes"},
		{line: "secret set {kept} BANK_KEY --file {dir}/key.txt"},
		{line: "secret rotate {kept} BANK_KEY --file {dir}/key.txt"},
		{line: "secret list {kept}", is: "list-secrets"},
		{line: "secret delete {kept} BANK_KEY --yes"},
		{line: "resource list {doubt}", is: "list-resources"},
		{line: "resource show {doubt} box", is: "get-resource"},
		{line: "resource release {doubt} box --yes", is: "release-resource"},
		{line: "tool list", is: "list-tools"},
		{line: "tool show echo", is: "get-tool"},
		{line: "agent list", is: "list-agents"},
		{line: "agent show helper", is: "get-agent"},
		{line: "agent apply {dir}/agent.yaml", is: "put-agent"},
		{line: "agent versions applied", is: "list-agent-versions"},
		{line: "agent delete applied --yes"},
		{line: "harness list", is: "list-harnesses"},
		{line: "harness show house", is: "get-harness"},
		{line: "harness apply {dir}/harness.yaml", is: "put-harness"},
		{line: "harness versions layer", is: "list-harness-versions"},
		{line: "harness delete layer --yes"},
		{line: "connection add github --token --host api.github.com --file {dir}/key.txt", is: "put-connection"},
		{line: "connection list", is: "list-connections"},
		{line: "connection delete github --yes"},
		{line: "connection test wiki", is: "test-connection", codes: []int{6}},
		{line: "provider list", is: "list-providers"},
		{line: "provider set gate --kind openai --base-url http://127.0.0.1:1/v1 --key-file {dir}/key.txt --default-model small", is: "put-provider"},
		{line: "provider show gate", is: "get-provider"},
		{line: "provider test scripted:{dir}/word.yaml", is: "test-provider"},
		{line: "model default gate/small", is: "set-default-model"},
		{line: "model list", is: "list-models"},
		{line: "model default --clear"},
		{line: "provider delete gate --yes"},
		{line: "token create writer", is: "create-token"},
		{line: "token list", is: "list-tokens"},
		{line: "token revoke writer --yes", is: "revoke-token"},
		{line: "audit list", is: "list-audit"},
		{line: "egress list"},
		{line: "egress allow api.example.com"},
		{line: "egress deny evil.example.com"},
		{line: "egress test http://127.0.0.1:1/", codes: []int{1}},
		{line: "admin backup {dir}/copy"},
		{line: "admin restore {dir}/copy --data {dir}/restored"},
		{line: "admin verify"},
		{line: "admin gc"},
		{line: "admin migrate"},
		{line: "admin scheduler"},
		{line: "api GET /v1/sessions"},
		{line: "config list"},
		{line: "config check"},
		{line: "config schema"},
		{line: "doctor", codes: []int{1}},
		{line: "version"},
		{line: "session delete doomed --yes"},
		{line: "session import {dir}/doomed.jsonl", is: "import-session"},
	}
}

// schemas are those of the API's document, by operation.
type schemas struct {
	compiler *jsonschema.Compiler
	places   map[string]string
}

const openapiURL = "file:///openapi.json"

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	s := &schemas{compiler: jsonschema.NewCompiler(), places: map[string]string{}}
	if err = errors.Join(err, json.Unmarshal(text, &document), s.compiler.AddResource(openapiURL, value)); err != nil {
		t.Fatal(err)
	}
	for _, methods := range document.Paths {
		for _, operation := range methods {
			for status, response := range operation.Responses {
				if ref, ok := response.Content["application/json"].Schema["$ref"].(string); ok && strings.HasPrefix(status, "2") {
					s.places[operation.ID] = ref
				}
			}
		}
	}
	return s
}

// holds validates the output of a command against the schema of the API. A list is the items of the
// API's page.
func (s *schemas) holds(t *testing.T, of sample, r ran, value any) {
	t.Helper()
	place, ok := s.places[of.is]
	if !ok {
		t.Fatalf("perdure %s: the API has no operation %s that answers JSON", of.line, of.is)
	}
	if _, list := value.([]any); list {
		place += "/properties/items"
	}
	schema, err := s.compiler.Compile(openapiURL + place)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("perdure %s is not what %s answers: %v", r.line, of.is, err)
	}
}
